"""The Triton kernels: right in Triton's interpreter, and compiled ahead of time for three architectures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="the extra `gpu` is not installed")

SHARED_MEMORY = {"sm_80": 163 * 1024, "sm_90": 227 * 1024, "sm_100": 227 * 1024}
"""What one block may use, from the CUDA programming guide."""


def _run(what: str, cache: Path) -> dict[str, Any]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("triton_attention.py")), what],
        env={
            **env,
            "TRITON_CACHE_DIR": str(cache),
            "TRITON_INTERPRET": "1" if what == "interpret" else "0",
            "TRITON_DEFAULT_FP_FUSION": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_in_the_interpreter_they_follow_the_definitions(tmp_path: Path):
    errors = _run("interpret", tmp_path)
    assert set(errors) == {
        *("scores", "sparse", "dense"),
        *(f"{form} {gate}" for form in ("recurrent", "chunked") for gate in ("bounded", "unbounded")),
    }
    assert {name: error for name, error in errors.items() if not error < 1e-6} == {}


def test_they_compile_for_three_architectures_with_tensor_cores_and_within_shared_memory(tmp_path: Path):
    made = _run("compile", tmp_path)
    assert len(made) == 12
    for name, found in made.items():
        kernel, architecture = name.split()
        assert found["cubin"] > 1000, name
        assert found["shared"] <= SHARED_MEMORY[architecture], name
        # The recurrence has no matrix product: it is bound by the state it reads and writes.
        assert found["matrix"] == (kernel != "recurrent"), name
