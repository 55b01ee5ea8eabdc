"""Container images: building, listing, pruning."""
