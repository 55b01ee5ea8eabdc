"""Whimbrel, a coding agent for long hauls. This module holds the version and nothing else."""

from .app.version import __version__

__all__ = ["__version__"]
