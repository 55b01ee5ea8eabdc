"""``whimbrel engine``: a table of the native engine's tools; each is imported when it is used."""

from __future__ import annotations

import importlib
import importlib.util

import click

from ...sandbox.base.errors import ConfigError

_COMMANDS: dict[str, tuple[str, str, str]] = {
    # name: (module below app.commands, attribute, one line for --help)
    "verify": (
        "engine_verify",
        "command",
        "Compare a checkpoint's numbers with golden ones stored beside it.",
    ),
    "plan": ("engine_plan", "command", "Parameters, bytes, caches and a layout by config.json alone."),
    "tiny": ("engine_tiny", "command", "Write a small random checkpoint in the released layout."),
    "info": ("engine_info", "command", "What a checkpoint folder holds and what it lacks."),
    "bench": ("engine_bench", "command", "How fast a checkpoint runs here, and how much memory it reads."),
    "quantize": ("engine_quantize", "command", "Turn a bf16 checkpoint's experts into MXFP4, resumable."),
}


def need_native() -> None:
    """Say what is missing before a command of the native engine imports it.

    Raises:
        ConfigError: the packages of the extra are not installed.
    """
    missing = [name for name in ("numpy", "ml_dtypes") if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the native engine needs {' and '.join(missing)}, which the extra `native` brings",
            hint="pip install 'whimbrel[native]'",
        )


class EngineGroup(click.Group):
    """Knows its commands' help lines without importing them (numpy alone takes a tenth of a second)."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f".{entry[0]}", package=__package__)
        return getattr(module, entry[1])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in _COMMANDS.items()])


@click.group(cls=EngineGroup)
def group() -> None:
    """Tools of the native engine: checkpoints of the Kimi K3 family on this machine."""
