"""The person's own editor on a text."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path


def edited(text: str) -> str:
    """The text as it was saved in $VISUAL or $EDITOR; as it was when nothing was saved.

    Raises:
        OSError: there is no editor, or it cannot be started or failed.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    if not command.strip():
        raise OSError("no editor is set: export EDITOR=vim (or nano, emacs -nw, ...)")
    with tempfile.TemporaryDirectory(prefix="whimbrel-prompt-") as folder:
        path = Path(folder, "prompt.md")
        path.write_text(text, encoding="utf-8")
        # It owns the terminal until it ends: the one program that is run with it, on purpose.
        try:
            code = subprocess.call([*shlex.split(command), str(path)])
        except (OSError, ValueError) as error:
            raise OSError(f"the editor {command!r} cannot be started: {error}") from error
        if code != 0:
            raise OSError(f"the editor ended with exit code {code}; the prompt is as it was")
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
