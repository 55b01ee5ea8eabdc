"""The terminal interface: renders what runs tell, answers what they ask, and decides nothing itself."""
