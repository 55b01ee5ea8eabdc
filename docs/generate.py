"""`make docs`: regenerates docs/commands.md, docs/config.schema.json, docs/pictures, README.md's transcript.

`--no-pictures` leaves the pictures, which take a minute, as they are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
START, END = "<!-- transcript: made by `make docs` -->\n```text\n", "```\n<!-- end of transcript -->"


def commands_page() -> str:
    """Help texts of every command, as the program prints them."""
    from whimbrel.app.cli import cli

    parts = ["# Commands\n\nMade by `make docs` from the program's own help.\n"]

    def add(command: click.Command, name: str, parent: click.Context | None) -> None:
        own = click.Context(command, info_name=name, parent=parent, max_content_width=100, terminal_width=100)
        parts.append(f"## {own.command_path}\n\n```text\n{command.get_help(own)}\n```\n")
        if isinstance(command, click.Group):
            for child in command.list_commands(own):
                found = command.get_command(own, child)
                if found is not None:
                    add(found, child, own)

    add(cli, "whimbrel", None)
    return "\n".join(parts)


def transcript() -> str:
    """What `make demo` prints, with paths as seen from the repository."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py"],
        cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.replace(str(ROOT) + "/", "")


def main() -> int:
    (ROOT / "docs" / "commands.md").write_text(commands_page(), encoding="utf-8")
    schema = subprocess.run(
        [sys.executable, "-m", "whimbrel.app.cli", "config", "schema"],
        capture_output=True,
        text=True,
        check=True,
    )
    (ROOT / "docs" / "config.schema.json").write_text(schema.stdout, encoding="utf-8")
    if "--no-pictures" not in sys.argv[1:]:
        subprocess.run([sys.executable, ROOT / "docs" / "pictures.py"], check=True)
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    head, _, rest = text.partition(START)
    _, _, tail = rest.partition(END)
    if not tail:
        print("README.md has no transcript marks", file=sys.stderr)
        return 1
    readme.write_text(head + START + transcript() + END + tail, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
