"""One model on several processes: heads and experts shared out (tensor, expert), layers in stages (pipeline)."""
