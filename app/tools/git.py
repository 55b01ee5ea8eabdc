"""The ``git`` tool: what changed and how it came about. Reads only; runs nothing a repository configures.

Data by action. status: ``{"branch", "head", "changes": [{"path", "status"}]}``; diff and show:
``{"files": [{"path", "status"}], "bytes", "artifact": str | None}`` (show of a file: ``{"path",
"bytes", "artifact"}``); log: ``{"commits": [{"id", "author", "date", "subject"}], "more": bool}``;
blame: ``{"path", "lines": [{"line", "commit", "author", "date", "text"}]}``. All have ``"action"``.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from ...sandbox.base.errors import RepositoryError, ToolError
from ...sandbox.base.git import GitResult, redact_url_secrets
from ..repo.files import read_regular
from ..repo.history import HistoryView
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult
from .paths import printable, workspace_path
from .reading import binary_kind

MAX_TEXT_CHARS = 30_000
MAX_BLAMED = 400
_MAX_FILE = 16 << 20
_MAX_LEFT_OUT = 500
_TIMEOUT_S = 60.0
# No ":" (a path in disguise), no leading "-" (an option), no "@{...}" or "^{/...}" (searches).
_REVISION = re.compile(r"^(?!-)[\w./~^@+-]{1,200}$")
_NO_CODE = ("--no-color", "--no-ext-diff", "--no-textconv")


class GitArguments(ToolArguments):
    action: Literal["status", "diff", "log", "blame", "show"]
    path: str | None = Field(default=None, description="Only this file or directory; a file for blame.")
    revision: str | None = Field(
        default=None, description="Commit, branch or tag. diff: from it; show: this one; log: up to it."
    )
    to: str | None = Field(default=None, description="diff: to this commit; left out: the files as they are.")
    start: int | None = Field(default=None, ge=1, description="blame: first line.")
    end: int | None = Field(default=None, ge=1, description="blame: last line.")
    max_count: int = Field(default=20, ge=1, le=200, description="log: how many commits.")
    stat: bool = Field(default=False, description="diff, show: only how much changed in which file.")


class GitTool:
    name: ClassVar[str] = "git"
    arguments: ClassVar[type[ToolArguments]] = GitArguments
    permission: ClassVar[PermissionClass] = PermissionClass.READ

    async def run(self, context: ToolContext, arguments: GitArguments) -> ToolResult:
        """Raises ToolError for what git cannot show: no such commit, no such path, no commit yet."""
        tree = await context.workspace.snapshot()
        lock: asyncio.Lock = context.scratch.setdefault("git_lock", asyncio.Lock())
        async with lock:
            try:
                return await asyncio.to_thread(_Question(context, arguments, tree).answer)
            except RepositoryError as error:
                raise ToolError(redact_url_secrets(error.message)) from error


class _Question:
    """One call; all of it blocks."""

    def __init__(self, context: ToolContext, arguments: GitArguments, tree: str) -> None:
        self._context = context
        self._arguments = arguments
        self._tree = tree
        view: HistoryView | None = context.scratch.get("git_view")
        if view is None:
            view = HistoryView(context.workspace, Path(context.sandbox.spec.state_dir) / "history")
            context.scratch["git_view"] = view
        self._view = view
        self._path = self._checked_path()

    def answer(self) -> ToolResult:
        self._view.refresh()
        result = {
            "status": self._status,
            "diff": self._diff,
            "log": self._log,
            "blame": self._blame,
            "show": self._show,
        }[self._arguments.action]()
        data: dict[str, Any] = {"action": self._arguments.action, **result.data}
        note = "\n[history made inside is too large to be shown whole]" if self._view.incomplete else ""
        return ToolResult(result.text + note, data, result.artifacts)

    def _checked_path(self) -> str | None:
        given = self._arguments.path
        if given is None:
            return None
        # A deleted file has a history too: only where the path leads counts.
        path = workspace_path(self._context, given)
        return None if path == "." else path

    def _commit(self, revision: str | None) -> str:
        name = revision or "HEAD"
        if not _REVISION.match(name) or ".." in name:
            raise ToolError(
                f"{name[:80]!r} is not a commit, branch or tag", hint="for a range give revision and to"
            )
        found = self._view.commit(name)
        if found is None:
            why = "there is no commit yet" if name == "HEAD" else f"there is no commit {name}"
            raise ToolError(why, hint="log shows commits")
        return found

    def _git(self, *args: str, data: bytes | None = None) -> GitResult:
        return self._view.git.run_sync(*args, input=data, timeout_s=_TIMEOUT_S)

    def _limited(self) -> tuple[str, ...]:
        return ("--", self._path) if self._path is not None else ("--",)

    def _status(self) -> ToolResult:
        branch = self._view.branch()
        head = self._view.commit("HEAD")
        start = head or self._git("hash-object", "-t", "tree", os.devnull).text()
        changes = self._names("diff-tree", "-r", start, self._tree)
        on = f"On branch {branch}" if branch else "No branch is checked out"
        lines = [f"{on}, at {self._view.first_line(head)}." if head else f"{on}, without a commit yet."]
        lines += [f"{one['status']} {one['path']}" for one in changes[:500]]
        if len(changes) > 500:
            lines.append(f"[{len(changes) - 500} more changed files]")
        if not changes:
            lines.append("The files are as in that commit." if head else "There are no files.")
        lines[0] = redact_url_secrets(lines[0])
        return ToolResult("\n".join(lines), {"branch": branch, "head": head, "changes": changes})

    def _diff(self) -> ToolResult:
        start = self._commit(self._arguments.revision)
        end = self._commit(self._arguments.to) if self._arguments.to is not None else self._tree
        files = self._names("diff-tree", "-r", start, end)
        if not files:
            return ToolResult("No difference.", {"files": [], "bytes": 0, "artifact": None})
        form = ("--stat=110",) if self._arguments.stat else ("-p",)
        hidden = self._hidden("diff-tree", "-r", start, end)
        made = self._readable(hidden, "diff-tree", "-r", "-M", *form, *_NO_CODE, start, end)
        return self._shown(made.stdout, {"files": files}, len(hidden))

    def _names(self, *command: str) -> list[dict[str, str]]:
        fields = self._git(*command, "-M", "-z", "--name-status", *self._limited()).fields()
        found: list[dict[str, str]] = []
        at = 0
        while at + 1 < len(fields):
            status = fields[at][0]
            at += 2 if status in "RC" else 1
            found.append({"path": printable(fields[at]), "status": status})
            at += 1
        return found

    def _hidden(self, *command: str) -> list[str]:
        """The files of a difference that may not be read, old names of renamed ones included."""
        fields = self._git(*command, "--no-renames", "-z", "--name-only", *self._limited()).fields()
        readable = set(self._context.paths.filtered(fields))
        return sorted({path for path in fields if path not in readable})

    def _readable(self, hidden: list[str], *command: str) -> GitResult:
        """What a command prints about all other files."""
        if not hidden:
            return self._git(*command, *self._limited())
        left_out = [f":(exclude,literal,top){path}" for path in hidden]
        if len(hidden) > _MAX_LEFT_OUT:
            left_out = self._context.paths.pathspecs()[1:]
        git = self._view.git.with_options(extra_env={"GIT_LITERAL_PATHSPECS": "0"})
        where = f":(literal,top){self._path}" if self._path is not None else ":(top)"
        return git.run_sync(*command, "--", where, *left_out, timeout_s=_TIMEOUT_S)

    def _log(self) -> ToolResult:
        count = self._arguments.max_count
        form = "--format=%H%x1f%an%x1f%as%x1f%s%x1e"
        command = ("log", "--no-color", "--no-show-signature", f"--max-count={count + 1}", form)
        made = self._git(*command, self._commit(self._arguments.revision), *self._limited())
        text = redact_url_secrets(made.stdout.decode("utf-8", "replace"))
        commits: list[dict[str, str]] = []
        for record in text.split("\x1e"):
            parts = record.strip("\n").split("\x1f")
            if len(parts) == 4:
                commits.append(dict(zip(("id", "author", "date", "subject"), parts, strict=True)))
        more = len(commits) > count
        commits = commits[:count]
        lines = [f"{one['id'][:12]} {one['date']} {one['author']}: {one['subject'][:200]}" for one in commits]
        if more:
            lines.append(f"[more commits; these are the newest {count}]")
        return ToolResult("\n".join(lines) or "No commit touches it.", {"commits": commits, "more": more})

    def _show(self) -> ToolResult:
        commit = self._commit(self._arguments.revision)
        if (
            self._path is not None
            and self._arguments.revision is not None
            and self._is_file(commit, self._path)
        ):
            content = self._git("cat-file", "blob", f"{commit}:{self._path}").stdout
            kind = binary_kind(content[:65536])
            if kind is not None:
                raise ToolError(f"{printable(self._path)} is {kind} there, not text")
            return self._shown(content, {"path": printable(self._path)})
        form = ("--stat=110",) if self._arguments.stat else ("-p",)
        command = (
            "show",
            "-M",
            "--no-show-signature",
            "--format=commit %H%nAuthor: %an <%ae>%nDate: %ad%n%n%B",
        )
        files = self._names("diff-tree", "-r", "--root", "--no-commit-id", commit)
        hidden = self._hidden("diff-tree", "-r", "-m", "--root", "--no-commit-id", commit)
        made = self._readable(hidden, *command, *form, *_NO_CODE, commit)
        return self._shown(made.stdout, {"files": files}, len(hidden))

    def _is_file(self, commit: str, path: str) -> bool:
        made = self._view.git.run_sync("cat-file", "-t", f"{commit}:{path}", check=False)
        return made.text() == "blob"

    def _blame(self) -> ToolResult:
        if self._path is None:
            raise ToolError("blame needs the path of a file")
        commit = self._commit(self._arguments.revision)
        if self._arguments.revision is not None:
            if not self._is_file(commit, self._path):
                raise ToolError(f"{printable(self._path)} is no file in {self._arguments.revision}")
            source, data = (commit,), None
        else:
            try:
                data = read_regular(self._context.workspace.root, self._path, _MAX_FILE)
            except OSError as error:
                raise ToolError(f"{printable(self._path)} cannot be read: {error.strerror}") from error
            if data is None:
                raise ToolError(f"{printable(self._path)} is over {_MAX_FILE >> 20} MiB")
            source = ("--contents", "-")
        start = self._arguments.start or 1
        end = min(self._arguments.end or start + MAX_BLAMED - 1, start + MAX_BLAMED - 1)
        if end < start:
            raise ToolError(f"the range {start}-{end} is empty")
        command = ("blame", "--line-porcelain", f"-L{start},{end}", *source)
        made = self._git(*command, "--", self._path, data=data)
        found = _blamed(redact_url_secrets(made.stdout.decode("utf-8", "replace")))
        lines = [
            f"{one['commit'][:10]} {one['date']} {one['author'][:24]:24} {one['line']:>5} {one['text'][:300]}"
            for one in found
        ]
        if len(found) == MAX_BLAMED:
            lines.append(f"[stopped after {MAX_BLAMED} lines; go on with start={end + 1}]")
        return ToolResult("\n".join(lines), {"path": printable(self._path), "lines": found})

    def _shown(self, output: bytes, data: dict[str, Any], hidden: int = 0) -> ToolResult:
        text = redact_url_secrets(output.decode("utf-8", "replace"))
        if hidden:
            text = f"[{hidden} file(s) not shown: the permission rules keep them unread]\n{text}"
        more: dict[str, Any] = {"bytes": len(output), "artifact": None}
        if len(text) <= MAX_TEXT_CHARS:
            return ToolResult(text.rstrip("\n") or "(empty)", data | more)
        handle = self._context.keep(text.encode(), "text/plain")
        cut = text[:MAX_TEXT_CHARS].rpartition("\n")[0] or text[:MAX_TEXT_CHARS]
        left = f"{len(text) - len(cut)} of {len(text)} characters not shown"
        gap = f"\n[... {left}; all of it: artifact:{handle}]"
        return ToolResult(cut + gap, data | more | {"artifact": handle}, artifacts=(handle,))


def _blamed(text: str) -> list[dict[str, Any]]:
    """Reads ``--line-porcelain``."""
    import datetime

    found: list[dict[str, Any]] = []
    current: dict[str, Any] = {}
    for line in text.split("\n"):
        if line.startswith("\t"):
            current["text"] = line[1:]
            found.append(current)
            current = {}
        elif not current:
            parts = line.split(" ")
            if len(parts) >= 3:
                new = not parts[0].strip("0")
                current = {"line": int(parts[2]), "commit": "not yet" if new else parts[0]}
        elif line.startswith("author "):
            current["author"] = line.removeprefix("author ")
            if current["commit"] == "not yet":
                current["author"] = "(uncommitted)"
        elif line.startswith("author-time "):
            moment = datetime.datetime.fromtimestamp(int(line.split(" ")[1]), tz=datetime.UTC)
            current["date"] = moment.date().isoformat()
    return found
