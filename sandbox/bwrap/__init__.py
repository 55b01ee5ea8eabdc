"""Bubblewrap sandbox."""
