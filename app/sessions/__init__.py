"""The append-only session store."""
