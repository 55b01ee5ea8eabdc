"""The Anthropic Messages form, over HTTP."""
