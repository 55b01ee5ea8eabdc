"""What went wrong in a call, as a short key that is the same for the same kind of failure."""

from __future__ import annotations

import hashlib
import re
from typing import Any, cast

from ...engine.chat import ToolResultPart

__all__ = ["failure_kind", "fields", "steady"]

_VOLATILE = re.compile(
    r"\d+(?:\.\d+)? ?(?:ms|s|seconds?)\b|(?<=row )\d+|artifact:[0-9a-f]+"
    r"|0x[0-9a-f]+|\d\d:\d\d:\d\d(?:[.,]\d+)?"
)
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\S*[/.]\S*|\d+")


def steady(text: str) -> str:
    """The text without what differs between two runs of one command although nothing else does."""
    return _VOLATILE.sub("#", text)


def fields(result: ToolResultPart) -> dict[str, Any]:
    """The data of a result, where it is an object."""
    return cast("dict[str, Any]", result.data) if isinstance(result.data, dict) else {}


def failure_kind(result: ToolResultPart) -> str:
    """Empty for a success. Names, paths, numbers and quotations do not count, only what kind it is.

    A file whose edit fails again and again is one kind; the same in another file is another.
    """
    data = fields(result)
    if result.name == "bash":
        exit_code = data.get("exit_code")
        output = steady(result.text)
        if not result.is_error and (exit_code in (0, None) or "\n" not in output or "(no output)" in output):
            return ""  # a search that finds nothing has no output; that is no failure
        if not result.is_error:
            return f"bash {hashlib.sha256(output.encode('utf-8', 'replace')).hexdigest()[:16]}"
    if not result.is_error:
        return ""
    if data.get("reason"):
        return f"{result.name} {data['reason']} {data.get('path', '')}"
    return f"{result.name} {_PARTICULAR.sub('#', steady(result.text).split(chr(10))[0])[:200]}"
