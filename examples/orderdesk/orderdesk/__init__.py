"""Order desk of a small wholesaler."""
