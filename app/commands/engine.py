"""``whimbrel engine``: a table of the native engine's tools; each is imported when it is used."""

from __future__ import annotations

import importlib.util

import click

from ...sandbox.base.errors import ConfigError
from ..lazy_group import lazy_group

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


@click.group(cls=lazy_group(_COMMANDS))
def group() -> None:
    """Tools of the native engine: checkpoints of the Kimi K3 family on this machine."""
