"""Run by test_triton.py under TRITON_INTERPRET=1: prints one JSON line of errors relative to the largest value."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent))
from host_tensor import HostTensor
from whimbrel.kernels.mxfp4 import reference
from whimbrel.kernels.mxfp4 import triton as kernels


def matrix(rng: np.random.Generator, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(0, 256, (rows, columns // 2), np.uint8), rng.integers(
        115, 125, (rows, columns // 32), np.uint8
    )


def main() -> None:
    rng = np.random.default_rng(0)
    errors: dict[str, float] = {}
    for tokens, rows, columns in ((1, 70, 96), (3, 10, 288), (5, 65, 32), (20, 70, 160)):
        x, (packed, scales) = (
            rng.standard_normal((tokens, columns)).astype(np.float32),
            matrix(rng, rows, columns),
        )
        scales[1] = 0
        exact = reference.matmul(x, packed, scales)
        for dot in (tl.float32, tl.float16):
            out = HostTensor(np.full((tokens, rows), 7, np.float32))
            kernels.matmul(HostTensor(x), HostTensor(packed), HostTensor(scales), out, dot=dot)
            errors[f"{tokens} tokens, {dot}"] = float(np.abs(out.array - exact).max() / np.abs(exact).max())
    scales[2, 1] = 255
    kernels.matmul(HostTensor(x), HostTensor(packed), HostTensor(scales), out, dot=tl.float32)
    errors["not a number"] = float(
        not (np.isnan(out.array[:, 2]).all() and np.isnan(out.array).sum() == len(x))
    )

    counts = [3, 0, 18, 1]
    experts = [matrix(rng, 70, 96) for _ in counts]
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    x = rng.standard_normal((sum(counts), 96)).astype(np.float32)
    out = HostTensor(np.full((len(x), 70), 7, np.float32))
    addresses = [HostTensor(np.array([e[i].ctypes.data for e in experts], np.int64)) for i in range(2)]
    kernels.grouped(HostTensor(x), HostTensor(first), addresses[0], addresses[1], out, dot=tl.float32)
    exact = np.concatenate(
        [reference.matmul(x[first[e] : first[e + 1]], *experts[e]) for e in range(len(experts))]
    )
    errors["grouped"] = float(np.abs(out.array - exact).max() / np.abs(exact).max())
    print(json.dumps(errors))


if __name__ == "__main__":
    main()
