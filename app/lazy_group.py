"""A group of commands that are imported when they are used: its help needs only a table."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import click

Table = Mapping[str, tuple[str, str, str]]
"""Name -> module below ``app.commands``, attribute in it, one line for --help."""


class LazyGroup(click.Group):
    """Knows its commands' help lines without importing them. Subclasses set ``table``."""

    table: ClassVar[Table] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f".commands.{entry[0]}", package=__package__)
        return getattr(module, entry[1])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.table:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.table, 1)
            meant = f" Did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"No such command '{args[0]}'.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in self.table.items()])


def lazy_group(table: Table) -> type[Any]:
    """A group class over a table, for ``click.group(cls=...)``."""
    return type("Group", (LazyGroup,), {"table": table})
