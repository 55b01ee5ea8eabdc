"""The library llama.cpp, as the ``local`` extra brings it (``make local``)."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

_LIBRARY = "llama_cpp"
_callbacks: list[Any] = []
"""The library keeps only an address, so something else must keep the function."""


class NativeFailure(Exception):
    """llama.cpp refused something; one line."""


def lacking_library() -> str | None:
    """Why llama.cpp cannot be used, or None; nothing is loaded to find out."""
    if importlib.util.find_spec(_LIBRARY) is None:
        return "llama-cpp-python is not installed (`make local`)"
    return None


def load_library() -> Any:
    """llama_cpp's C interface, silent. Only for processes that may end with it.

    Raises:
        NativeFailure: it is not installed or cannot be loaded.
    """
    try:
        api: Any = importlib.import_module("llama_cpp.llama_cpp")
    except Exception as error:  # whatever a broken native library raises on loading
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise NativeFailure(f"llama-cpp-python cannot be loaded: {reason[:300]}") from error

    def silent(_level: int, _text: bytes, _data: object) -> None:
        return

    if not _callbacks:
        _callbacks.append(api.llama_log_callback(silent))
        api.llama_log_set(_callbacks[0], None)
    return api
