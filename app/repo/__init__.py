"""Understanding a repository: git facts, symbols, search, stack traces, test frameworks, environment."""
