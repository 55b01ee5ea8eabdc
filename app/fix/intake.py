"""Reading the issue: text, file, standard input or a GitHub issue address."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from ...sandbox.base.errors import UsageError

MAX_ISSUE_BYTES = 1 << 20
"""Issue text above this is refused: counted in bytes, not characters."""

_GITHUB_ISSUE = re.compile(
    r"https://github\.com/(?P<owner>[\w.-]+)/(?P<repo>[\w.-]+)/(?:issues|pull)/(?P<number>\d+)(?:[#?].*)?"
)
_ADDRESS = re.compile(r"https?://\S+")
_FILE_LIKE = re.compile(r"[^\s]+\.(?:md|txt|rst|log|json|markdown)|\.{0,2}/[^\s]*")


@dataclass(frozen=True)
class Issue:
    """The issue as data: never obeyed, only read."""

    text: str
    origin: str
    """``text``, ``file NAME``, ``standard input``, ``github OWNER/REPO#N`` or ``none``."""


def read_issue(argument: str | None) -> Issue:
    """Resolves ``--issue``.

    Standard input is read only for ``-``: an open pipe of a parent process must not
    make the run wait.

    Raises:
        UsageError: unreadable, too large, not text, or an address that did not answer.
    """
    if argument is None:
        return Issue("", "none")
    if argument == "-":
        if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - closed before the start
            raise UsageError("--issue - reads standard input, which is closed")
        return Issue(_decode(sys.stdin.buffer.read(MAX_ISSUE_BYTES + 1), "standard input"), "standard input")
    match = _GITHUB_ISSUE.fullmatch(argument.strip())
    if match:
        return _from_github(match["owner"], match["repo"], int(match["number"]))
    if _ADDRESS.fullmatch(argument.strip()):
        raise UsageError(
            f"--issue {argument.strip()} is not the address of a GitHub issue or pull request",
            hint="save the issue to a file and give that",
        )
    if "\n" not in argument and len(argument) < 4096:
        path = Path(argument).expanduser()
        try:
            # Named pipes too: that is what `--issue <(command)` gives.
            if path.is_file() or path.is_fifo():
                with path.open("rb") as stream:
                    return Issue(_decode(stream.read(MAX_ISSUE_BYTES + 1), argument), f"file {path.name}")
            if path.is_dir():
                raise UsageError(f"--issue {argument} is a folder", hint="give a file, text, - or an address")
        except OSError as error:
            raise UsageError(f"cannot read --issue {argument}: {error.strerror}") from error
        if _FILE_LIKE.fullmatch(argument):
            raise UsageError(
                f"--issue {argument} looks like a file, but there is none",
                hint="check the path, or write the issue as a sentence",
            )
    if not argument.strip():
        raise UsageError("--issue is empty", hint="leave it out to repair whatever tests fail")
    return Issue(_decode(argument.encode("utf-8", "replace"), "--issue"), "text")


MAX_LOG_BYTES = 64 << 20


def read_log(path: Path | None) -> str:
    """The text of ``--log``, or empty.

    Raises:
        UsageError: unreadable, or larger than ``MAX_LOG_BYTES``.
    """
    if path is None:
        return ""
    try:
        with path.expanduser().open("rb") as stream:
            data = stream.read(MAX_LOG_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read --log {path}: {error.strerror}", hint="check the path") from error
    if len(data) > MAX_LOG_BYTES:
        raise UsageError(
            f"--log {path} is larger than {MAX_LOG_BYTES >> 20} MiB", hint="give the failing job's part"
        )
    return data.decode("utf-8", "replace")


def _decode(data: bytes, origin: str) -> str:
    if len(data) > MAX_ISSUE_BYTES:
        raise UsageError(
            f"the issue from {origin} is larger than {MAX_ISSUE_BYTES} bytes",
            hint="give the relevant part; a CI log goes to --log",
        )
    if b"\0" in data:
        raise UsageError(f"the issue from {origin} is not text")
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


def _from_github(owner: str, repo: str, number: int) -> Issue:
    import os

    import httpx

    headers = {"Accept": "application/vnd.github+json", "User-Agent": "whimbrel"}
    token = os.environ.get("GITHUB_TOKEN") or os.environ.get("GH_TOKEN")
    if token:
        headers["Authorization"] = f"Bearer {token}"
    base = os.environ.get("GITHUB_API_URL", "https://api.github.com").rstrip("/")
    name = f"github {owner}/{repo}#{number}"
    try:
        with httpx.Client(headers=headers, timeout=20, follow_redirects=True) as client:
            answer = client.get(f"{base}/repos/{owner}/{repo}/issues/{number}")
            answer.raise_for_status()
            body = answer.json()
            comments: list[dict[str, object]] = []
            if body.get("comments"):
                page = client.get(f"{base}/repos/{owner}/{repo}/issues/{number}/comments?per_page=50")
                page.raise_for_status()
                comments = page.json()
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        hint = (
            "set GITHUB_TOKEN for private repositories or rate limits" if code in (401, 403, 404, 429) else ""
        )
        raise UsageError(f"{name} could not be read: HTTP {code}", hint=hint) from error
    except (httpx.HTTPError, ValueError) as error:
        raise UsageError(
            f"{name} could not be read: {type(error).__name__}", hint="save the issue to a file and give that"
        ) from error
    parts = [f"# {body.get('title') or ''}", str(body.get("body") or "")]
    parts += [f"--- comment ---\n{comment.get('body') or ''}" for comment in comments]
    return Issue(_decode("\n\n".join(parts).encode("utf-8", "replace"), name), name)


def repository_files(root: Path) -> list[str]:
    """Python files below ``root``, which the paths in a log are matched with. Raises UsageError."""
    try:
        return [
            path.relative_to(root).as_posix()
            for path in root.rglob("*.py")
            if ".git" not in path.relative_to(root).parts
        ]
    except OSError as error:
        raise UsageError(f"the working copy cannot be listed: {error.strerror}") from error
