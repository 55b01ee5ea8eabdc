"""Docker sandbox."""
