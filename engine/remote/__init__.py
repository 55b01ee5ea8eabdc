"""OpenAI-compatible servers."""
