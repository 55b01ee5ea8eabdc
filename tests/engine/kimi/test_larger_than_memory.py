"""A model three times as large as the memory it may use runs, and gives the numbers it gives without a limit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from whimbrel.sandbox.bwrap.cgroups import create_groups
from whimbrel.sandbox.protocol import SandboxLimits

from .making import k3, tensors_for, write_checkpoint

LIMIT = 64 << 20
CACHE = 12 << 20
EXPERTS, LAYERS = 64, 4
RUN = """
import sys
from pathlib import Path
for group in sys.argv[3:]:
    Path(group).write_text("0")
from whimbrel.engine.kimi.load import LoadOptions, load_runner
from whimbrel.engine.kimi.protocol import Chunk
import numpy as np
cache = int(sys.argv[2]) or None
runner = load_runner(Path(sys.argv[1]), LoadOptions(exact=True, expert_cache=cache, cache_bytes=1 << 20))
sequence = runner.new()
for size in (12, 1, 1):
    (logits,) = runner.forward([Chunk(sequence, np.arange(size))])
print(float(np.abs(logits).sum()), runner.source.stats.bytes_read)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = k3(LAYERS, [2], first_k_dense_replace=0, num_experts=EXPERTS, num_experts_per_token=8,
              moe_intermediate_size=1024, routed_expert_hidden_size=512, num_shared_experts=0)  # fmt: skip
    tensors = tensors_for({**text, "num_experts": 1}, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    for n in range(LAYERS):
        base = f"model.layers.{n}.block_sparse_moe"
        tensors[f"{base}.gate.weight"] = rng.standard_normal((EXPERTS, 40), np.float32)
        tensors[f"{base}.gate.e_score_correction_bias"] = np.zeros(EXPERTS, np.float32)
        own = {k: v for k, v in tensors.items() if k.startswith(f"{base}.experts.0.")}
        for e in range(1, EXPERTS):
            for name, array in own.items():
                other = rng.permutation(array) if name.endswith("scale") else array
                tensors[name.replace("experts.0.", f"experts.{e}.")] = other
    return write_checkpoint(tmp_path_factory.mktemp("large"), text, tensors)


@pytest.fixture
def groups() -> Iterator[list[str]]:
    made = create_groups("larger-than-memory", SandboxLimits(memory_bytes=LIMIT))
    try:
        if "memory" not in made.controllers:
            pytest.skip("no memory control group can be made here")
        yield made.procs_files()
    finally:
        made.remove()


def run(folder: Path, cache: int, groups: list[str]) -> tuple[float, int]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, folder, str(cache), *groups], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-500:]}"
    total, read = done.stdout.split()
    return float(total), int(read)


def test_a_model_three_times_as_large_as_its_memory_runs(folder: Path, groups: list[str]) -> None:
    assert (folder / "model.safetensors").stat().st_size > 3 * LIMIT
    free, _ = run(folder, 0, [])
    mapped, _ = run(folder, 0, groups)
    streamed, read = run(folder, CACHE, groups)
    assert mapped == pytest.approx(free, rel=1e-4) and streamed == pytest.approx(free, rel=1e-4)
    assert read > 3 * CACHE, "the cache was filled over and over"
