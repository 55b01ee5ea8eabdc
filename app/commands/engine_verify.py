"""``whimbrel engine verify``: the numbers of a checkpoint against golden ones."""
