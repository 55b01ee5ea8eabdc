"""Run by test_triton_attention.py in processes of their own: Triton decides at import whether it interprets or compiles.

    python triton_attention.py interpret   the kernels on numpy arrays, in Triton's interpreter
    python triton_attention.py compile     ahead of time, for three architectures

The first needs TRITON_INTERPRET=1 in the environment. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import triton
import triton.language as tl
from host_tensor import HostTensor
from whimbrel.kernels.dsa import reference as dsa_reference
from whimbrel.kernels.dsa import triton as dsa
from whimbrel.kernels.kda import reference as kda_reference
from whimbrel.kernels.kda import triton as kda


def _error(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> float:
    return float(np.sqrt(((got - wanted) ** 2).mean() / (wanted**2).mean()))


def _pages(rows: np.ndarray[Any, Any], size: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    count = -(-len(rows) // size)
    table = np.random.default_rng(1).permutation(count + 2)[:count].astype(np.int32)
    pool = np.zeros((count + 2, size, rows.shape[1]), np.float32)
    for at, row in enumerate(rows):
        pool[table[at // size], at % size] = row
    return pool, table


def interpret() -> dict[str, float]:
    made = np.random.default_rng(0)
    found: dict[str, float] = {}

    tokens, heads, width, count = 3, 16, 32, 150
    q, w = (
        made.standard_normal((tokens, heads, width), np.float32),
        made.standard_normal((tokens, heads), np.float32),
    )
    keys = made.standard_normal((count, width), np.float32)
    pool, table = _pages(keys, 16)
    out = np.zeros((tokens, count), np.float32)
    dsa.indexer_scores(
        *map(HostTensor, (q, pool, w, table, out)), tokens=tokens, count=count, first_position=140, heads=heads,
        width=width, row_stride=width, page_stride=16 * width, page_size=16, dot=tl.float32,
    )  # fmt: skip
    wanted = dsa_reference.indexer_scores(q, keys, w, 140)
    seen = np.isfinite(wanted)
    assert np.array_equal(np.isfinite(out), seen)
    found["scores"] = _error(out[seen], wanted[seen])

    heads, latent, shared, chosen = 20, 32, 16, 40
    q_latent = made.standard_normal((tokens, heads, latent), np.float32)
    q_pe = made.standard_normal((tokens, heads, shared), np.float32)
    rows = made.standard_normal((count, latent + shared), np.float32)
    pool, table = _pages(rows, 16)
    indices = np.argsort(made.random((tokens, count)), axis=1)[:, :chosen].astype(np.int64)
    indices[0, 5:9] = -1
    indices[2] = -1
    shape = {
        "tokens": tokens, "first_position": 120, "scale": 0.3, "heads": heads, "latent": latent, "shared": shared,
        "latent_stride": 48, "latent_page_stride": 16 * 48, "pe_stride": 48, "pe_page_stride": 16 * 48,
        "page_size": 16, "dot": tl.float32,
    }  # fmt: skip
    queries = (q_latent, q_pe, pool, pool.reshape(-1)[latent:], table)
    for name, some, number in (("sparse", indices, chosen), ("dense", None, count)):
        out = np.full((tokens, heads, latent), np.nan, np.float32)
        given = None if some is None else HostTensor(some)
        dsa.attention(*map(HostTensor, queries), given, HostTensor(out), rows=number, **shape)
        exact = (
            dsa_reference.dense_attention(q_latent, q_pe, rows[:, :latent], rows[:, latent:], 120, 0.3)
            if some is None
            else dsa_reference.sparse_attention(q_latent, q_pe, rows[:, :latent], rows[:, latent:], some, 0.3)
        )
        found[name] = _error(out, exact)

    for gate in ("bounded", "unbounded"):
        tokens, heads, size = 37, 2, 32
        q, k, v, raw = (made.standard_normal((tokens, heads, size)) for _ in range(4))
        k /= np.linalg.norm(k, axis=2, keepdims=True)
        g = (
            np.full_like(raw, -5.0)
            if gate == "bounded"
            else -np.where(made.random(raw.shape) < 0.1, 125, abs(raw))
        )
        start = made.standard_normal((heads, size, size)).astype(np.float32)
        inputs = [a.astype(np.float32) for a in (q, k, v, g, made.random((tokens, heads)))]
        exact, after = kda_reference.recurrent(start, *inputs)
        for name, run in (("recurrent", kda.recurrent), ("chunked", kda.chunked)):
            state, out = start.copy(), np.zeros((tokens, heads, size), np.float32)
            exactly = {"precision": "ieee"} if name == "chunked" else {}
            run(
                *map(HostTensor, (state, *inputs, out)),
                tokens=tokens,
                heads=heads,
                keys=size,
                values=size,
                **exactly,
            )
            found[f"{name} {gate}"] = max(_error(out, exact), _error(state, after))
    return found


def compile_ahead() -> dict[str, dict[str, object]]:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    f32 = dict.fromkeys(("state", "q", "k", "v", "g", "beta", "out"), "*fp32")
    scores = {
        "q": "*bf16", "keys": "*bf16", "w": "*fp32", "table": "*i32", "out": "*fp32", "tokens": "i32",
        "count": "i32", "first": "i32", "row_stride": "i32", "page_stride": "i32",
    }  # fmt: skip
    attend = {
        "q_latent": "*bf16", "q_pe": "*bf16", "latents": "*bf16", "pe": "*bf16", "table": "*i32",
        "indices": "*i64", "out": "*fp32", "per_token": "i32", "first": "i32", "scale": "fp32",
        "latent_stride": "i32", "latent_page_stride": "i32", "pe_stride": "i32", "pe_page_stride": "i32",
    }  # fmt: skip
    full = {
        "page_size": 64, "heads": 96, "latent": 512, "shared": 64, "group": 16, "block": 32, "dot": tl.bfloat16,
    }  # fmt: skip
    delta = {"keys": 128, "values": 128}
    loop = {**f32, "tokens": "i32", "heads": "i32"}
    kernels = {
        "scores": (
            dsa.scores_kernel, scores,
            {"page_size": 64, "heads": 32, "width": 128, "block": 64, "dot": tl.bfloat16}, {"num_warps": 4},
        ),
        "sparse": (dsa.attention_kernel, attend, {**full, "sparse": True}, {"num_warps": 8, "num_stages": 2}),
        "recurrent": (kda.recurrent_kernel, loop, {**delta, "block": 16}, {"num_warps": 4}),
        "chunked": (
            kda.chunked_kernel, loop, {**delta, "block": 32, "chunk": 16, "part": 16, "precision": "tf32x3"},
            {"num_warps": 4},
        ),
    }  # fmt: skip
    found: dict[str, dict[str, object]] = {}
    for name, (kernel, signature, constants, options) in kernels.items():
        for architecture in (80, 90, 100):
            source = ASTSource(kernel, {**signature, **dict.fromkeys(constants, "constexpr")}, constants)
            target = GPUTarget("cuda", architecture, 32)
            made = triton.compile(source, target=target, options={**options, "enable_fp_fusion": True})
            found[f"{name} sm_{architecture}"] = {
                "matrix": any(word in made.asm["ptx"] for word in ("mma.sync", "wgmma.mma", "tcgen05.mma")),
                "shared": made.metadata.shared,
                "cubin": len(made.asm["cubin"]),
            }
    return found


if __name__ == "__main__":
    print(json.dumps(interpret() if sys.argv[1] == "interpret" else compile_ahead()))
