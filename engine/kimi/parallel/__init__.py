"""One model on several processes: heads and experts shared out, layers in stages."""
