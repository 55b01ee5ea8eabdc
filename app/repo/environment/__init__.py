"""The interpreter and dependencies with which the project under repair runs its tests."""
