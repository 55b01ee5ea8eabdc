"""Starting one process as the leader of its own session."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from .errors import ToolError
from .tree import MARKER, ProcessTree, become_subreaper


def _limit_setter(rlimits: Mapping[int, tuple[int, int]]) -> Callable[[], None]:
    # Runs between fork and exec: nothing but system calls on values prepared before.
    prepared = tuple(rlimits.items())
    setrlimit = resource.setrlimit

    def set_limits() -> None:
        for limit, pair in prepared:
            setrlimit(limit, pair)

    return set_limits


def spawn(
    argv: Sequence[str],
    *,
    cwd: str | Path,
    env: Mapping[str, str],
    stdin: int | IO[bytes] | None,
    stdout: int | IO[bytes] | None,
    stderr: int | IO[bytes] | None,
    user: int | None,
    group: int | None,
    rlimits: Mapping[int, tuple[int, int]] | None,
    pass_fds: Sequence[int] = (),
) -> tuple[subprocess.Popen[bytes], ProcessTree]:
    """Starts ``argv`` and returns it with its process tree.

    ``pass_fds``: open files of ours that the program gets under the same numbers.

    Raises:
        ToolError: the program or the working directory does not exist or cannot be used.
    """
    if not argv:
        raise ToolError("no command was given")
    become_subreaper()
    marker = ProcessTree.new_marker()
    marked = {**env, MARKER: marker}
    tree = ProcessTree(marker)
    try:
        popen = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=marked,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=pass_fds,
            user=user,
            group=group,
            extra_groups=[] if user is not None and os.geteuid() == 0 else None,
            preexec_fn=_limit_setter(rlimits) if rlimits else None,
        )
    except OSError as error:
        raise _start_error(error, argv[0], Path(cwd)) from error
    except (ValueError, subprocess.SubprocessError) as error:
        raise ToolError(f"cannot start {argv[0]!r}: {error}") from error
    tree.lead(popen)
    return popen, tree


def _start_error(error: OSError, program: str, cwd: Path) -> ToolError:
    try:
        cwd_usable = cwd.is_dir()
    except OSError:
        cwd_usable = False
    if not cwd_usable:
        return ToolError(
            f"the working directory {cwd} does not exist any more or is not a directory",
            hint="create it again or run the command from another directory",
        )
    if error.errno == errno.EACCES and error.filename is not None and str(error.filename) == str(cwd):
        return ToolError(f"the working directory {cwd} may not be entered")
    if error.errno == errno.ENOENT:
        return ToolError(
            f"the program {program!r} was not found",
            hint="check its name and the PATH the command gets",
        )
    if error.errno == errno.EACCES:
        return ToolError(f"the program {program!r} may not be executed: permission denied")
    if error.errno == errno.ENOEXEC:
        return ToolError(
            f"the file {program!r} is not a program the system can run",
            hint="a script needs a first line such as #!/bin/sh",
        )
    if error.errno == errno.E2BIG:
        return ToolError("the command line is longer than the system allows", hint="pass the data in a file")
    return ToolError(f"cannot start {program!r}: {error.strerror or error}")
