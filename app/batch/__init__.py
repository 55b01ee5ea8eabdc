"""Many issues in one go: `whimbrel batch`, on this machine or on a Ray cluster."""
