"""The editors' door: the Agent Client Protocol over standard input and output."""
