"""What a person touches: commands, the agent loop, tools, repository understanding, repair."""
