"""A copy of a repository to work on: snapshots, restore and the patch."""

from .live import find_repository, tree_of
from .start_tree import StartTree, freeze_index
from .workspace import BaseState, ChangedFile, Workspace

__all__ = [
    "BaseState",
    "ChangedFile",
    "StartTree",
    "Workspace",
    "find_repository",
    "freeze_index",
    "tree_of",
]
