"""A copy of a repository to work on: snapshots, restore and the patch."""

from .live import find_repository, tree_of
from .workspace import BaseState, ChangedFile, Workspace

__all__ = ["BaseState", "ChangedFile", "Workspace", "find_repository", "tree_of"]
