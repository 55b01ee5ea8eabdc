"""`whimbrel serve`: a model behind the OpenAI and the Anthropic form of HTTP."""
