"""`whimbrel serve`: a model behind the OpenAI and the Anthropic form of HTTP."""

from __future__ import annotations

import sys
from typing import Any

import click

from .shared import not_empty


@click.command("serve", short_help="Serve a model over HTTP (OpenAI and Anthropic form, metrics).")
@click.argument("model", metavar="MODEL", callback=not_empty)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one."
)
@click.option(
    "--api-key-file",
    metavar="FILE",
    callback=not_empty,
    help="Keys that clients need, one a line; without it only this machine may ask.",
)
@click.option("--served-model-name", metavar="NAME", multiple=True, help="What clients call the model.")
@click.option(
    "--max-concurrent", type=click.IntRange(1, 4096), default=32, show_default=True, help="Running requests."
)
@click.option(
    "--max-queue", type=click.IntRange(0, 65536), default=128, show_default=True, help="Waiting requests."
)
@click.option(
    "--max-body", type=click.IntRange(1, 4096), default=32, show_default=True, help="MiB of a request."
)
@click.option(
    "--drain-s",
    type=click.FloatRange(0, 86400),
    default=30.0,
    show_default=True,
    help="Seconds that running requests get after SIGTERM.",
)
def command(**given: Any) -> None:
    """Serves MODEL (llama:FILE.gguf, llama:smollm2, kimi:DIR) until a signal ends it.

    \b
    /v1/chat/completions, /v1/models   as of OpenAI
    /v1/messages, .../count_tokens     as of Anthropic
    /health, /ready, /version, /metrics

    The log is one JSON object a line on standard error; it holds no prompts, answers or keys.
    SIGTERM lets running requests end; a second one ends them.

    Exit codes: 0 ended by a signal; 2 usage; 5 its licence is not accepted; 8 the model cannot be loaded;
    10 configuration; 130 and 143 ended by a second signal.
    """
    from ...engine.serve.opening import open_server
    from ..licences import require_for_model
    from ..version import __version__

    require_for_model(given["model"])

    sys.exit(open_server(given, version=__version__))
