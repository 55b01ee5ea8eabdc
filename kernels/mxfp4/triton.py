# pyright: basic, reportMissingImports=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
"""MXFP4 products in Triton, for NVIDIA GPUs: one token, many tokens, and all experts of a layer at once.

Needs the package `triton`. Arguments are tensors of the GPU (anything with `data_ptr`, as torch makes them);
under TRITON_INTERPRET=1 the same kernels run on the CPU. `DOT` is the type that the tensor cores multiply:
bfloat16 holds every MXFP4 weight of normal scale exactly. Triton's interpreter multiplies the raw bits of
bfloat16 operands, so there DOT must be float32 (or float16).
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

BLOCK_ROWS, BLOCK_COLUMNS, BLOCK_TOKENS = 64, 128, 16


@triton.jit
def _magnitudes(code):
    """Codes 0..15 -> float32: E2M1 as bits (exponent 127 + e - 1, one bit of fraction; 0.5 for code 1)."""
    exponent = (code >> 1) & 3
    fraction = code & 1
    normal = ((exponent + 126) << 23) | (fraction << 22)
    bits = tl.where(exponent == 0, fraction * 0x3F000000, normal) | ((code >> 3) << 31)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _weights(packed, scales, rows, live, columns, half, inside):
    """The even and the odd columns of bytes `half` of some rows: two float32 [rows, len(half)]."""
    mask = live[:, None] & inside[None, :]
    at = rows[:, None].to(tl.int64) * (columns // 2) + half[None, :]
    byte = tl.load(packed + at, mask=mask, other=0).to(tl.int32)
    at = rows[:, None].to(tl.int64) * (columns // 32) + half[None, :] // 16
    scale = tl.load(scales + at, mask=mask, other=127).to(tl.int32)
    bits = tl.where(scale == 0, 0x00400000, tl.where(scale == 255, 0x7FC00000, scale << 23))
    factor = bits.to(tl.float32, bitcast=True)
    return _magnitudes(byte & 15) * factor, _magnitudes(byte >> 4) * factor


@triton.jit
def _tile(x, out, packed, scales, begin, end, n_rows, columns, rows, ROWS: tl.constexpr,
          COLUMNS: tl.constexpr, TOKENS: tl.constexpr, DOT: tl.constexpr):  # fmt: skip
    """Rows `rows` for the tokens begin..end, TOKENS at a time."""
    live = rows < n_rows
    for first in range(begin, end, TOKENS):
        tokens = first + tl.arange(0, TOKENS)
        there = tokens < end
        total = tl.zeros((TOKENS, ROWS), tl.float32)
        for start in range(0, columns // 2, COLUMNS // 2):
            half = start + tl.arange(0, COLUMNS // 2)
            inside = half < columns // 2
            even, odd = _weights(packed, scales, rows, live, columns, half, inside)
            mask = there[:, None] & inside[None, :]
            at = x + tokens[:, None].to(tl.int64) * columns + half[None, :] * 2
            x_even = tl.load(at, mask=mask, other=0.0).to(DOT)
            x_odd = tl.load(at + 1, mask=mask, other=0.0).to(DOT)
            total = tl.dot(x_even, tl.trans(even.to(DOT)), total, input_precision="ieee")
            total = tl.dot(x_odd, tl.trans(odd.to(DOT)), total, input_precision="ieee")
        at = out + tokens[:, None].to(tl.int64) * n_rows + rows[None, :]
        tl.store(at, total, mask=there[:, None] & live[None, :])


@triton.jit
def vector_kernel(x, out, packed, scales, n_rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """One token a program column: out[t, rows] in float32 without the tensor cores."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    token = tl.program_id(1)
    live = rows < n_rows
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, columns // 2, COLUMNS // 2):
        half = start + tl.arange(0, COLUMNS // 2)
        inside = half < columns // 2
        even, odd = _weights(packed, scales, rows, live, columns, half, inside)
        at = x + token * columns + half * 2
        x_even = tl.load(at, mask=inside, other=0.0).to(tl.float32)
        x_odd = tl.load(at + 1, mask=inside, other=0.0).to(tl.float32)
        total += tl.sum(even * x_even[None, :] + odd * x_odd[None, :], axis=1)
    tl.store(out + token * n_rows + rows, total, mask=live)


@triton.jit
def matrix_kernel(x, out, packed, scales, tokens, n_rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
                  TOKENS: tl.constexpr, DOT: tl.constexpr):  # fmt: skip
    """Many tokens: program (row block, token block)."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    begin = tl.program_id(1) * TOKENS
    end = tl.minimum(begin + TOKENS, tokens)
    _tile(x, out, packed, scales, begin, end, n_rows, columns, rows, ROWS, COLUMNS, TOKENS, DOT)


@triton.jit
def grouped_kernel(x, out, first, packed_at, scales_at, n_rows, columns, ROWS: tl.constexpr,
                   COLUMNS: tl.constexpr, TOKENS: tl.constexpr, DOT: tl.constexpr):  # fmt: skip
    """Program (row block, expert e): the tokens first[e] .. first[e + 1], the matrix at these addresses."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    expert = tl.program_id(1)
    packed = tl.load(packed_at + expert).to(tl.pointer_type(tl.uint8))
    scales = tl.load(scales_at + expert).to(tl.pointer_type(tl.uint8))
    begin, end = tl.load(first + expert), tl.load(first + expert + 1)
    _tile(x, out, packed, scales, begin, end, n_rows, columns, rows, ROWS, COLUMNS, TOKENS, DOT)


def matmul(x: Any, packed: Any, scales: Any, out: Any, *, dot: Any = tl.bfloat16) -> None:
    """out f32[T, R] = x [T, C] (float32 or bfloat16) times the transpose of the matrix; all contiguous."""
    tokens, columns = x.shape
    rows = packed.shape[0]
    blocks = triton.cdiv(rows, BLOCK_ROWS)
    if tokens <= 4:
        vector_kernel[(blocks, tokens)](
            x, out, packed, scales, rows, columns, ROWS=BLOCK_ROWS, COLUMNS=BLOCK_COLUMNS
        )
        return
    matrix_kernel[(blocks, triton.cdiv(tokens, BLOCK_TOKENS))](
        x, out, packed, scales, tokens, rows, columns,
        ROWS=BLOCK_ROWS, COLUMNS=BLOCK_COLUMNS, TOKENS=BLOCK_TOKENS, DOT=dot,
    )  # fmt: skip


def grouped(x: Any, first: Any, packed_at: Any, scales_at: Any, out: Any, *, dot: Any = tl.bfloat16) -> None:
    """One product of every expert, in one launch.

    Args:
        x: [S, C], tokens sorted by expert.
        first: i32[E + 1].
        packed_at, scales_at: i64[E], addresses of u8[R, C/2] and u8[R, C/32].
        out: f32[S, R].
    """
    rows = out.shape[1]
    grouped_kernel[(triton.cdiv(rows, BLOCK_ROWS), packed_at.shape[0])](
        x, out, first, packed_at, scales_at, rows, x.shape[1],
        ROWS=BLOCK_ROWS, COLUMNS=BLOCK_COLUMNS, TOKENS=BLOCK_TOKENS, DOT=dot,
    )  # fmt: skip
