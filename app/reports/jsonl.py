"""JSON lines: the evidence row by row, then the result, as ``fix-issue --json`` ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def json_lines(result: Mapping[str, Any]) -> bytes:
    """One object a line: ``{"event": "evidence" | "result", "data": ...}``."""
    rows = [{"event": "evidence", "data": row} for row in result.get("evidence") or []]
    lines = [*rows, {"event": "result", "data": dict(result)}]
    return "".join(json.dumps(line, ensure_ascii=True) + "\n" for line in lines).encode("ascii")
