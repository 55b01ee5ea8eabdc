"""What an issue's text alone can do: name suspicious places, and become a failing test."""
