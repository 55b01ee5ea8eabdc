"""The tools every run has, in the frozen order that model-side prefix caches rely on."""

from __future__ import annotations

from .base import Tool
from .bash import BashTool
from .edit import EditTool
from .locate import LocateTool
from .read import ReadTool
from .repair import RepairTool
from .run_tests import RunTestsTool
from .search import SearchTool


def default_tools() -> list[Tool]:
    """Fresh instances; append new tools at the end, never reorder."""
    return [
        RunTestsTool(),
        LocateTool(),
        ReadTool(),
        SearchTool(),
        EditTool(),
        BashTool(),
        RepairTool(),
    ]
