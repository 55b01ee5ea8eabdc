"""Runs an issue's statements one by one inside the sandbox and notes what each showed.

This text is put in front of a throw-away test module, so the snippets see the same paths, settings
and working directory as the project's tests. Standard library only, Python 3.8 and later. The name
of the report and the snippets follow as ``_REPORT`` and ``_SNIPPETS``.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import sys
import tempfile
import traceback
import types
import warnings
from typing import Any, Dict, List

_MAX_TEXT = 4000
_TOP_LEVEL_AWAIT = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0x2000)


def _safely(function: Any, value: Any) -> str:
    try:
        text = function(value)
    except Exception:  # noqa: BLE001
        # A repr that raises is a fault of the value, not of the probe.
        return ""
    return text if isinstance(text, str) and len(text) <= _MAX_TEXT else ""


def _name(kind: type) -> str:
    plain = kind.__module__ in ("builtins", "__main__", "issue_snippet")
    return kind.__qualname__ if plain else "%s.%s" % (kind.__module__, kind.__qualname__)


def _describe(error: BaseException) -> Dict[str, Any]:
    frames: List[Any] = []
    for frame in traceback.extract_tb(error.__traceback__):
        if os.path.realpath(frame.filename) != os.path.realpath(__file__):
            frames.append([frame.filename, frame.lineno or 0, frame.name])
    return {
        "type": _name(type(error)),
        "bases": [kind.__name__ for kind in type(error).__mro__ if kind is not object],
        "message": _safely(str, error),
        "frames": frames[-40:],
    }


def _execute(code: Any, namespace: Dict[str, Any], loop: Any) -> Any:
    result = eval(code, namespace)
    if inspect.iscoroutine(result):
        return loop.run_until_complete(result)
    return result


def _run_step(step: Dict[str, Any], namespace: Dict[str, Any], loop: Any) -> Dict[str, Any]:
    seen: Dict[str, Any] = {"ran": True, "stdout": "", "error": None, "value": None}
    out = io.StringIO()
    expression = step["form"] in ("value", "print")
    source = step["expression"] if expression else step["source"]
    try:
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            mode = "eval" if expression else "exec"
            code = compile(source, "<issue>", mode, flags=_TOP_LEVEL_AWAIT, dont_inherit=True)
            value = _execute(code, namespace, loop)
            if step["form"] == "print":
                print(value)
        if expression:
            seen["value"] = {
                "repr": _safely(repr, value),
                "str": _safely(str, value),
                "type": _name(type(value)),
                "none": value is None,
            }
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001
        # SystemExit too: what a snippet ends with is what we are here to see.
        seen["error"] = _describe(error)
    seen["stdout"] = out.getvalue()[:_MAX_TEXT]
    return seen


def run_snippet(index: int, snippet: Dict[str, Any], report: str) -> None:
    """Runs one snippet; the report is written after each statement, so a hang loses nothing."""
    module = types.ModuleType("issue_snippet")
    sys.modules["issue_snippet"] = module
    before = os.getcwd()
    loop = asyncio.new_event_loop()
    seen: List[Dict[str, Any]] = []
    try:
        if snippet["files"]:
            folder = tempfile.mkdtemp()
            for name, text in snippet["files"].items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            os.chdir(folder)
        for step in snippet["steps"]:
            with open("%s.%d" % (report, index), "w", encoding="utf-8") as file:
                json.dump([*seen, {"ran": False, "running": True}], file)
            seen.append(_run_step(step, module.__dict__, loop))
            if seen[-1]["error"] is not None and step["form"] == "other":
                break
    finally:
        os.chdir(before)
        loop.close()
    with open("%s.%d" % (report, index), "w", encoding="utf-8") as file:
        json.dump(seen, file)
