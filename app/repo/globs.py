"""File globs as in .gitignore lines, applied to a list of paths (so that every engine agrees)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...sandbox.base.errors import ToolError

__all__ = ["path_filter"]


def path_filter(globs: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path (repository-relative, forward slashes) passes ``globs``.

    A glob without a slash matches the file name in any directory; with one, the whole
    path from the root; ``dir/`` everything below; ``**`` any number of directories;
    ``{a,b}`` alternatives. ``!glob`` excludes. With no including glob everything passes
    that is not excluded.

    Raises:
        ToolError: a glob is empty or its brackets do not close.
    """
    including = [_compile(glob) for glob in globs if not glob.startswith("!")]
    excluding = [_compile(glob[1:]) for glob in globs if glob.startswith("!")]

    def passes(path: str) -> bool:
        if including and not any(test.fullmatch(path) for test in including):
            return False
        return not any(test.fullmatch(path) for test in excluding)

    return passes


def _compile(glob: str) -> re.Pattern[str]:
    text = glob.removeprefix("./")
    if not text.strip("/"):
        raise ToolError(f"the glob {glob!r} is empty")
    anchored = "/" in text.rstrip("/")
    below = text.endswith("/")
    body = _translate(text.strip("/"), glob)
    try:
        return re.compile(f"{'' if anchored else '(?:.*/)?'}{body}{'/.*' if below else ''}", re.DOTALL)
    except re.error as error:
        raise ToolError(f"the glob {glob!r} is not valid: {error.msg}") from error


def _translate(text: str, glob: str) -> str:
    out: list[str] = []
    depth = at = 0
    while at < len(text):
        char = text[at]
        if text.startswith("**/", at) and (at == 0 or text[at - 1] == "/"):
            out.append("(?:[^/]+/)*")
            at += 3
            continue
        if text.startswith("**", at):
            out.append(".*")
            at += 2
            continue
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            end = text.find("]", at + 2)
            if end < 0:
                raise ToolError(f"the glob {glob!r} has an unclosed [")
            inner = text[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"(?!/)[{'^' + inner[1:] if inner[0] in '!^' else inner}]")
            at = end
        elif char == "{":
            depth += 1
            out.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            out.append(")")
        elif char == "," and depth:
            out.append("|")
        elif char == "\\" and at + 1 < len(text):
            at += 1
            out.append(re.escape(text[at]))
        else:
            out.append(re.escape(char))
        at += 1
    if depth:
        raise ToolError(f"the glob {glob!r} has an unclosed {{")
    return "".join(out)
