"""A copy of a repository to work on: snapshots, restore and the patch."""

from .workspace import BaseState, ChangedFile, Workspace

__all__ = ["BaseState", "ChangedFile", "Workspace"]
