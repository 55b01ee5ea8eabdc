"""From what the command line says to a running server. Imports the server's packages only when asked."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...sandbox.base.errors import ConfigError, UsageError
from .backend import Backend

_NEEDED = ("starlette", "uvicorn", "prometheus_client")
FORMS = "llama:FILE.gguf, llama:smollm2, kimi:DIR"


def open_server(given: Mapping[str, Any], *, version: str, environ: Mapping[str, str] | None = None) -> int:
    """Serves a model; the exit code of the process.

    Args:
        given: the options of ``whimbrel serve`` by their names.

    Raises:
        WhimbrelError: wrong options, a missing extra, or a model that cannot be loaded.
    """
    need_extra()
    from .app import Limits
    from .run import Settings, read_keys, serve

    values = os.environ if environ is None else environ
    backend = open_backend(given["model"], given["served_model_name"], values)
    key_file = given["api_key_file"]
    settings = Settings(
        host=given["host"],
        port=given["port"],
        keys=read_keys(Path(key_file).expanduser()) if key_file else (),
        limits=Limits(
            concurrent=given["max_concurrent"],
            queue=given["max_queue"],
            body_bytes=given["max_body"] << 20,
        ),
        drain_s=given["drain_s"],
    )
    return serve(backend, settings, version=version)


def need_extra() -> None:
    """Raises ConfigError: the packages of the extra ``serve`` are not all there."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the server needs {', '.join(missing)}, which the extra `serve` brings",
            hint="pip install 'whimbrel[serve]'",
        )


def open_backend(spec: str, names: Sequence[str], environ: Mapping[str, str]) -> Backend:
    """What answers for a model string; nothing is loaded yet.

    Raises:
        UsageError: the string names nothing that can be served.
        ConfigError: a file or a setting is wrong.
    """
    prefix, colon, rest = spec.strip().partition(":")
    if prefix == "llama" and rest.strip():
        from .llama import LlamaBackend

        return LlamaBackend.open(rest.strip(), names, environ)
    if prefix == "kimi" and rest.strip():
        from ..kimi.opening import resolve_folder

        local = resolve_folder(rest.strip(), environ)
        from ..kimi.backend import NativeBackend

        return NativeBackend(local, names)
    if not colon and prefix.endswith(".gguf"):
        raise UsageError(f"{spec!r} names no model", hint=f"llama:{spec}")
    raise UsageError(f"{spec!r} is no model that can be served here", hint=f"one of {FORMS}")
