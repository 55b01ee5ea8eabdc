"""Isolation without an agent: sandboxes, workspaces, images."""
