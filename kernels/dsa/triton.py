"""Sparse latent attention for GPUs, in Triton: indexer scores and attention over selected or all rows.

Arguments are what Triton takes: tensors of any library that have `data_ptr()` and `dtype`, on the device,
with contiguous rows; outputs are given by the caller. Cached rows lie in pages of `page_size` (a plain matrix
is one page) and `table` (i32) names them. `dot` is the type in which products are taken: bfloat16 on a
device, float32 in Triton's interpreter, whose bfloat16 products are wrong.
"""

# Triton's language is no typed Python, and the package is an extra.
# pyright: basic, reportMissingImports=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

# Fused multiply-adds are asked for, not left to a default.
_OPTIONS: dict[str, Any] = {"num_warps": 4, "enable_fp_fusion": True}
_ATTENTION: dict[str, Any] = {"num_warps": 8, "num_stages": 2, "enable_fp_fusion": True}


@triton.jit
def scores_kernel(
    q, keys, w, table, out, tokens, count, first, row_stride, page_stride,
    page_size: tl.constexpr, heads: tl.constexpr, width: tl.constexpr, block: tl.constexpr, dot: tl.constexpr,
):  # fmt: skip
    """`block` keys against one query token: q [T, H, D], w [T, H], out f32 [T, N]."""
    token = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    head, column = tl.arange(0, heads), tl.arange(0, width)
    page = tl.load(table + at // page_size, mask=inside, other=0).to(tl.int64)
    row = page * page_stride + (at % page_size) * row_stride
    key = tl.load(keys + row[:, None] + column[None, :], mask=inside[:, None], other=0.0)
    query = tl.load(q + (token * heads + head[:, None]) * width + column[None, :])
    dots = tl.dot(key.to(dot), tl.trans(query.to(dot)), input_precision="ieee")
    weight = tl.load(w + token * heads + head)
    score = tl.sum(tl.maximum(dots, 0.0) * weight[None, :], axis=1)
    score = tl.where(at <= first + token, score, float("-inf"))
    tl.store(out + token.to(tl.int64) * count + at, score, mask=inside)


@triton.jit
def attention_kernel(
    q_latent, q_pe, latents, pe, table, indices, out, per_token, first, scale,
    latent_stride, latent_page_stride, pe_stride, pe_page_stride,
    page_size: tl.constexpr, heads: tl.constexpr, latent: tl.constexpr, shared: tl.constexpr,
    group: tl.constexpr, block: tl.constexpr, sparse: tl.constexpr, dot: tl.constexpr,
):  # fmt: skip
    """`group` heads of one token over its rows, `block` at a time, with a running softmax.

    out f32 [T, H, L]."""
    token = tl.program_id(0)
    head = tl.program_id(1) * group + tl.arange(0, group)
    live = head < heads
    column, side = tl.arange(0, latent), tl.arange(0, shared)
    query_row = (token * heads + head).to(tl.int64)
    factor = scale * 1.4426950408889634
    query = tl.load(q_latent + query_row[:, None] * latent + column[None, :], mask=live[:, None], other=0.0)
    query_pe = tl.load(q_pe + query_row[:, None] * shared + side[None, :], mask=live[:, None], other=0.0)
    query, query_pe = (query * factor).to(dot), (query_pe * factor).to(dot)
    highest = tl.full([group], float("-inf"), tl.float32)
    total = tl.zeros([group], tl.float32)
    sums = tl.zeros([group, latent], tl.float32)
    count = per_token if sparse else tl.minimum(per_token, first + token + 1)
    for start in range(0, count, block):
        place = start + tl.arange(0, block)
        seen = place < count
        if sparse:
            at = tl.load(indices + token.to(tl.int64) * per_token + place, mask=seen, other=-1)
            seen = at >= 0
            at = tl.where(seen, at, 0)
        else:
            at = tl.where(seen, place, 0).to(tl.int64)
        page = tl.load(table + at // page_size, mask=seen, other=0).to(tl.int64)
        row = page * latent_page_stride + (at % page_size) * latent_stride
        row_pe = page * pe_page_stride + (at % page_size) * pe_stride
        values = tl.load(latents + row[:, None] + column[None, :], mask=seen[:, None], other=0.0).to(dot)
        keys_pe = tl.load(pe + row_pe[:, None] + side[None, :], mask=seen[:, None], other=0.0).to(dot)
        score = tl.dot(query, tl.trans(values), input_precision="ieee")
        score += tl.dot(query_pe, tl.trans(keys_pe), input_precision="ieee")
        score = tl.where(seen[None, :], score, float("-inf"))
        top = tl.maximum(highest, tl.max(score, axis=1))
        base = tl.where(top == float("-inf"), 0.0, top)  # no row seen yet
        weight = tl.exp2(score - base[:, None])
        keep = tl.exp2(highest - base)
        total = total * keep + tl.sum(weight, axis=1)
        sums = sums * keep[:, None] + tl.dot(weight.to(dot), values, input_precision="ieee")
        highest = top
    result = sums / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(out + query_row[:, None] * latent + column[None, :], result, mask=live[:, None])


def indexer_scores(
    q: Any, keys: Any, w: Any, table: Any, out: Any, *, tokens: int, count: int, first_position: int,
    heads: int, width: int, row_stride: int, page_stride: int, page_size: int, dot: Any = tl.bfloat16,
    block: int = 64,
) -> None:  # fmt: skip
    """Fills out f32 [tokens, count]; strides in values. heads and width: powers of two of at least 16."""
    run: Any = scores_kernel[(triton.cdiv(count, block), tokens)]
    run(
        q, keys, w, table, out, tokens, count, first_position, row_stride, page_stride,
        page_size=page_size, heads=heads, width=width, block=block, dot=dot, **_OPTIONS,
    )  # fmt: skip


def attention(
    q_latent: Any, q_pe: Any, latents: Any, pe: Any, table: Any, indices: Any, out: Any, *, tokens: int,
    rows: int, first_position: int, scale: float, heads: int, latent: int, shared: int, latent_stride: int,
    latent_page_stride: int, pe_stride: int, pe_page_stride: int, page_size: int, dot: Any = tl.bfloat16,
    group: int = 16, block: int = 32,
) -> None:  # fmt: skip
    """Fills out f32 [tokens, heads, latent]. With `indices` (i64 [tokens, rows], negative: none) sparse,
    without (None) dense over the first `rows` rows, causal. latent and shared: powers of two from 16 on."""
    sparse = indices is not None
    run: Any = attention_kernel[(tokens, triton.cdiv(heads, group))]
    run(
        q_latent, q_pe, latents, pe, table, indices if sparse else table, out, rows, first_position, scale,
        latent_stride, latent_page_stride, pe_stride, pe_page_stride, page_size=page_size, heads=heads,
        latent=latent, shared=shared, group=group, block=block, sparse=sparse, dot=dot,
        **_ATTENTION,
    )  # fmt: skip
