"""The agent loop: history, limits, permissions, prompts."""
