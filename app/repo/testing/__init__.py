"""Test frameworks behind one uniform report."""
