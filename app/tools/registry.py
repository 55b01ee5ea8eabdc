"""The tools every run has, in the frozen order that model-side prefix caches rely on."""

from __future__ import annotations

from .apply_patch import ApplyPatchTool
from .ask import AskTool
from .base import Tool
from .bash import BashTool
from .edit import EditTool
from .git import GitTool
from .glob import GlobTool
from .list import ListTool
from .locate import LocateTool
from .multi_edit import MultiEditTool
from .read import ReadTool
from .repair import RepairTool
from .run_tests import RunTestsTool
from .search import SearchTool
from .sub_agent import SubAgentTool
from .symbols import SymbolsTool
from .todo import TodoTool
from .view_image import ViewImageTool
from .web_fetch import WebFetchTool
from .write import WriteTool

SMALL_WINDOW = 12_000
"""Tokens. The descriptions of all tools take about half of this."""
_CORE = 7


def default_tools(*, interactive: bool = False, web: bool = False, window: int | None = None) -> list[Tool]:
    """Fresh instances; append new tools at the end, never reorder.

    Args:
        interactive: a person can be asked (``ToolContext.ask`` is set).
        web: the person allowed the public web for this run.
        window: tokens of the model's context; in a small one only the first seven tools are offered.
    """
    tools: list[Tool] = [
        RunTestsTool(),
        LocateTool(),
        ReadTool(),
        SearchTool(),
        EditTool(),
        BashTool(),
        RepairTool(),
        ListTool(),
        GlobTool(),
        SymbolsTool(),
        MultiEditTool(),
        ApplyPatchTool(),
        WriteTool(),
        GitTool(),
        TodoTool(),
        ViewImageTool(),
        SubAgentTool(),
    ]
    if window is not None and window < SMALL_WINDOW:
        tools = tools[:_CORE]
    if interactive:
        tools.append(AskTool())
    if web:
        tools.append(WebFetchTool())
    return tools
