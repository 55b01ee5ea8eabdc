"""The text of the hook that git runs: plain POSIX shell that needs no PATH."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

MARK = b"# whimbrel-hook 1"
CHAINED = "whimbrel-chained"
"""Folder beside the hooks: those that were there before, under their own names."""

_HEAD = """\
#!/bin/sh
{mark}
# Tests what this would put into history. Out again: whimbrel hook uninstall
case $0 in */*) here=${{0%/*}} ;; *) here=. ;; esac
earlier="$here/{chained}/{name}"
"""
_PLAIN = """\
if {present}; then
  {run} "$@" || exit $?
fi
"""
_WITH_REFS = """\
refs=
while IFS= read -r line || [ -n "$line" ]; do
  refs="$refs$line
"
done
if {present}; then
  printf '%s' "$refs" | {run} "$@" || exit $?
fi
"""
_TAIL = """\
case ${{WHIMBREL_SKIP:-0}} in 0) ;; *) exit 0 ;; esac
if [ -x {program} ]; then
  set -- {command} hook run {name} {options}-- "$@"
elif command -v whimbrel >/dev/null 2>&1; then
  set -- whimbrel hook run {name} {options}-- "$@"
else
  echo "whimbrel: not found any more, so nothing was tested (whimbrel hook install sets it up again)" >&2
  exit 0
fi
"""


def hook_script(name: str, options: Sequence[str], *, through_shell: bool = False) -> bytes:
    """The hook ``name``.

    The hook that was there before runs first, with the same arguments and standard input; its
    failure ends the hook with its exit code.

    Args:
        options: of ``whimbrel hook run``.
        through_shell: earlier hooks are read by sh, executable or not (husky's way).
    """
    command = _command()
    body = _WITH_REFS if name == "pre-push" else _PLAIN
    parts = [
        _HEAD.format(mark=MARK.decode(), chained=CHAINED, name=name),
        body.format(
            present='[ -f "$earlier" ]' if through_shell else '[ -f "$earlier" ] && [ -x "$earlier" ]',
            run='sh -e "$earlier"' if through_shell else '"$earlier"',
        ),
        _TAIL.format(
            program=shlex.quote(command[0]),
            command=shlex.join(command),
            name=name,
            options="".join(f"{shlex.quote(option)} " for option in options),
        ),
        'printf \'%s\' "$refs" | "$@"\n' if name == "pre-push" else 'exec "$@"\n',
    ]
    return "".join(parts).encode("utf-8", "surrogateescape")


def _command() -> list[str]:
    """How this installation is started, whatever PATH a client gives its hooks."""
    program = Path(sys.executable).parent / "whimbrel"
    if program.is_file():
        return [str(program)]
    # -P: a repository's own modules must not be found in place of ours.
    return [sys.executable, "-P", "-m", "whimbrel.app.cli"]
