"""The Triton kernels: right in the interpreter, compiled ahead of time for three generations of GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

SHARED_LIMIT = {80: 163 << 10, 90: 227 << 10, 100: 227 << 10}
"""Bytes of shared memory that one block may have (CUDA C++ programming guide, compute capabilities)."""


def test_the_interpreter_gives_what_the_definition_gives():
    script = Path(__file__).with_name("triton_interpreted.py")
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=env, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    errors = json.loads(done.stdout)
    assert len(errors) == 10
    assert {case: error for case, error in errors.items() if error > (2e-3 if "16" in case else 1e-6)} == {}


@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("name", ["vector_kernel", "matrix_kernel", "grouped_kernel"])
def test_kernels_compile_ahead_of_time(
    name: str, capability: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from whimbrel.kernels.mxfp4 import triton as kernels

    sizes: dict[str, Any] = {"ROWS": kernels.BLOCK_ROWS, "COLUMNS": kernels.BLOCK_COLUMNS}
    types = {"x": "*bf16", "out": "*fp32", "packed": "*u8", "scales": "*u8", "first": "*i32"}
    types |= {"packed_at": "*i64", "scales_at": "*i64", "tokens": "i32", "n_rows": "i32", "columns": "i32"}
    kernel = getattr(kernels, name)
    if name != "vector_kernel":
        sizes |= {"TOKENS": kernels.BLOCK_TOKENS, "DOT": triton.language.bfloat16}
    signature = {argument: types.get(argument, "constexpr") for argument in kernel.arg_names}
    made = triton.compile(ASTSource(kernel, signature, sizes), target=GPUTarget("cuda", capability, 32))
    assert made.asm["cubin"] and made.metadata.shared <= SHARED_LIMIT[capability]
    tensor_cores = ("mma.sync", "wgmma", "tcgen05.mma")
    assert any(word in made.asm["ptx"] for word in tensor_cores) == (name != "vector_kernel")
