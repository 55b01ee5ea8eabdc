"""`fix-issue --model llama:...`: the door and its errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..engine.gguf.local_model import need_local_model
from .conftest import Ran, Repo


def test_a_window_that_is_too_small_ends_the_run_with_the_models_code(
    fix: Callable[..., Ran], buggy: Repo
) -> None:
    need_local_model()
    ran = fix(buggy, "--model", "llama:smollm2", WHIMBREL_LLAMA_CONTEXT="256", WHIMBREL_LLAMA_THREADS="1")
    assert ran.code == 8 and "Traceback" not in ran.err
    assert "context window 256" in ran.result["message"]
    assert ran.result["tests_before"]["counts"] == {"failed": 1, "passed": 2}


def test_a_file_that_is_no_model_is_one_line(fix: Callable[..., Ran], buggy: Repo, tmp_path: Path) -> None:
    need_local_model()
    junk = tmp_path / "junk.gguf"
    junk.write_bytes(b"PK and so on")
    ran = fix(buggy, "--model", f"llama:{junk}")
    assert ran.code == 10 and "Traceback" not in ran.err
    assert "does not begin like a GGUF file" in ran.result["message"] and "\n" not in ran.result["message"]
