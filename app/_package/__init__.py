"""Whimbrel, a coding agent for long hauls. This module holds the version and nothing else."""

__version__ = "0.1.0"
