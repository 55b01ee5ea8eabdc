"""Other libraries, driven for comparison."""
