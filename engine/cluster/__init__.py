"""What surrounds a running engine: planning its machines, the licence of its weights."""
