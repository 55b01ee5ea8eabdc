"""The one way to run git: a scrubbed environment in which a repository cannot run code.

Hooks, fsmonitor, external diff drivers, text conversion, pagers, editors, prompts,
optional locks and repository discovery through inherited ``GIT_*`` variables are off.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .environment import base_environment
from .errors import RepositoryError
from .exits import exit_status
from .spawn import spawn
from .tree import ProcessTree

# Command-scope configuration: stronger than any file, including the repository's own.
_CONFIG: Mapping[str, str] = {
    "advice.detachedHead": "false",
    "core.askPass": "/bin/false",
    "core.editor": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.quotePath": "false",
    "core.untrackedCache": "false",
    "credential.helper": "",
    "diff.external": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.ext.allow": "never",
    "safe.directory": "*",
    "submodule.recurse": "false",
}
OLDEST_GIT = (2, 31)
"""The first version that reads configuration from its environment; an older one would quietly run
what a repository configures."""
_VERSION = re.compile(rb"git version (\d+)\.(\d+)")
_URL_SECRET = re.compile(r"(\b[a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s@'\"]*@")
_QUERY_SECRET = re.compile(
    r"([?&](?:access_token|token|password|private_token|key)=)[^&\s'\"]+", re.IGNORECASE
)


@dataclass(frozen=True)
class GitResult:
    """What one git command gave. ``stderr`` is redacted."""

    stdout: bytes
    stderr: str
    exit_code: int

    def text(self) -> str:
        """Stdout decoded as file names are (lossless for any bytes), without the last newline."""
        text = os.fsdecode(self.stdout)
        return text[:-1] if text.endswith("\n") else text

    def fields(self) -> list[str]:
        """NUL-separated stdout (``-z``) as names; bytes that are not UTF-8 survive as surrogates."""
        return [os.fsdecode(part) for part in self.stdout.split(b"\0") if part]


def redact_url_secrets(text: str) -> str:
    """Takes user names, passwords and tokens out of URLs."""
    return _QUERY_SECRET.sub(r"\1***", _URL_SECRET.sub(r"\1***@", text))


class Git:
    """Runs git commands for one repository. Holds no state besides the two paths.

    Args:
        git_dir: GIT_DIR, or None to let git find it from the work tree.
        work_tree: GIT_WORK_TREE and the current directory of every command.
        extra_env: more variables (GIT_INDEX_FILE, GIT_OBJECT_DIRECTORY, ...).
        config: more command-scope configuration (key -> value).
        user_config: whether the user's global configuration is read (the system's never is).
    """

    def __init__(
        self,
        git_dir: Path | None,
        work_tree: Path | None,
        *,
        extra_env: Mapping[str, str] | None = None,
        config: Mapping[str, str] | None = None,
        user_config: bool = True,
    ) -> None:
        self.git_dir = git_dir
        self.work_tree = work_tree
        self._extra_env = dict(extra_env or {})
        self._config = dict(config or {})
        self._user_config = user_config

    def with_options(
        self, *, extra_env: Mapping[str, str] | None = None, config: Mapping[str, str] | None = None
    ) -> Git:
        """The same repository with more variables or configuration."""
        return Git(
            self.git_dir,
            self.work_tree,
            extra_env={**self._extra_env, **(extra_env or {})},
            config={**self._config, **(config or {})},
            user_config=self._user_config,
        )

    def environment(self) -> dict[str, str]:
        """The environment git gets."""
        environment = base_environment(keep=("XDG_CONFIG_HOME",) if self._user_config else ())
        environment.update(
            {
                "GIT_ASKPASS": "/bin/false",
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_ATTR_NOSYSTEM": "1",
                "GIT_LFS_SKIP_SMUDGE": "1",
                "GIT_OPTIONAL_LOCKS": "0",
                "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
                "LANGUAGE": "",
                "LC_ALL": "C",
            }
        )
        if not self._user_config:
            environment["GIT_CONFIG_GLOBAL"] = os.devnull
        if self.git_dir is not None:
            environment["GIT_DIR"] = str(self.git_dir)
            if self.work_tree is not None:
                environment["GIT_WORK_TREE"] = str(self.work_tree)
        pairs = {**_CONFIG, **self._config}
        environment["GIT_CONFIG_COUNT"] = str(len(pairs))
        for number, (key, value) in enumerate(pairs.items()):
            environment[f"GIT_CONFIG_KEY_{number}"] = key
            environment[f"GIT_CONFIG_VALUE_{number}"] = value
        environment.update(self._extra_env)
        return environment

    def run_sync(
        self,
        *args: str,
        input: bytes | None = None,
        check: bool = True,
        timeout_s: float = 60,
    ) -> GitResult:
        """Runs ``git args`` to its end.

        Raises:
            RepositoryError: git is not installed, did not end in time, or (with ``check``) failed.
        """
        return _Invocation(self, args, input).communicate(check, timeout_s)

    async def run(
        self,
        *args: str,
        input: bytes | None = None,
        check: bool = True,
        timeout_s: float = 60,
    ) -> GitResult:
        """As ``run_sync``, without blocking the event loop; cancelling it ends git."""
        invocation = _Invocation(self, args, input)
        task = asyncio.ensure_future(asyncio.to_thread(invocation.communicate, check, timeout_s))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            invocation.kill()
            with contextlib.suppress(RepositoryError):
                await task
            raise


@functools.cache
def git_version(program: str) -> tuple[int, int] | None:
    """Major and minor version of a git program; None when it does not tell."""
    try:
        said = subprocess.run([program, "--version"], env=base_environment(), capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(said.stdout)
    return (int(match[1]), int(match[2])) if match else None


def refuse_old_git(program: str) -> None:
    """Raises RepositoryError for a git that is older than ``OLDEST_GIT``."""
    version = git_version(program)
    if version is not None and version < OLDEST_GIT:
        raise RepositoryError(
            f"{program} has version {version[0]}.{version[1]}; it cannot be kept from running what a "
            f"repository configures (hooks, filters), which {OLDEST_GIT[0]}.{OLDEST_GIT[1]} and later can",
            hint="install a newer git and put it first on PATH",
        )


class _Invocation:
    """One git process, startable from a worker thread and killable from outside it."""

    def __init__(self, git: Git, args: Sequence[str], data: bytes | None) -> None:
        self._environment = git.environment()
        self._cwd = git.work_tree or git.git_dir or Path.cwd()
        self._args = tuple(args)
        self._data = data
        self._killed = False
        self._tree: ProcessTree | None = None

    def kill(self) -> None:
        self._killed = True
        if self._tree is not None:
            self._tree.kill_now()

    def communicate(self, check: bool, timeout_s: float) -> GitResult:
        name = next((arg for arg in self._args if not arg.startswith("-")), "")
        program = shutil.which("git", path=self._environment["PATH"])
        if program is None:
            raise RepositoryError(
                "git was not found on PATH, and nothing can be done with a repository without it",
                hint="install git, for instance: apt-get install git",
            )
        refuse_old_git(program)
        try:
            cwd_usable = self._cwd.is_dir()
        except OSError as error:
            raise RepositoryError(f"{self._cwd} cannot be entered: {error.strerror or error}") from error
        if not cwd_usable:
            raise RepositoryError(
                f"{self._cwd} is not a directory", hint="give the directory of a git repository"
            )
        popen, tree = spawn(
            [program, *self._args],
            cwd=self._cwd,
            env=self._environment,
            stdin=subprocess.DEVNULL if self._data is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            user=None,
            group=None,
            rlimits=None,
        )
        self._tree = tree
        if self._killed:
            tree.kill_now()
        try:
            stdout, stderr_bytes = popen.communicate(self._data, timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise RepositoryError(f"git {name} did not end within {timeout_s:g} s and was stopped") from error
        finally:
            if popen.returncode is None:
                tree.kill_now()
                popen.communicate()
            self._tree = None
            tree.close()
        stderr = redact_url_secrets(stderr_bytes.decode("utf-8", "replace"))
        result = GitResult(stdout, stderr, exit_status(popen.wait()))
        if check and result.exit_code != 0:
            raise _failure(name, result)
        return result


def _failure(name: str, result: GitResult) -> RepositoryError:
    lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-1:]
    said = "; ".join(telling)[:500] or f"exit code {result.exit_code}"
    return RepositoryError(f"git {name} failed: {said}")
