"""ggml's attention operators, for comparison: lightning indexer, flash attention, gated delta net."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import ggml

F16 = 1
_P, _I64 = ctypes.c_void_p, ctypes.c_int64
_TYPES: dict[str, int] = {"float32": ggml.F32, "float16": F16, "bfloat16": ggml.BF16}
Array = np.ndarray[Any, np.dtype[Any]]


class Graph:
    """One operator over its inputs, computed as often as wanted."""

    def __init__(self, library: ggml.Ggml, megabytes: int) -> None:
        self.library, base = library, library.base
        for name, arguments in (
            ("ggml_new_tensor_4d", [_P, ctypes.c_int, _I64, _I64, _I64, _I64]),
            ("ggml_flash_attn_ext", [_P, _P, _P, _P, _P, ctypes.c_float, ctypes.c_float, ctypes.c_float]),
            ("ggml_lightning_indexer", [_P, _P, _P, _P, _P]),
            ("ggml_gated_delta_net", [_P, _P, _P, _P, _P, _P, _P, _I64]),
        ):
            function = getattr(base, name)
            function.restype, function.argtypes = _P, arguments
        self.memory = base.ggml_init(ggml._Init((megabytes + 64) << 20, None, False))
        self.graph = base.ggml_new_graph_custom(self.memory, 16, False)

    def tensor(self, array: Array, *sizes: int) -> int:
        """A copy of `array`; `sizes` count from the innermost axis."""
        array = np.ascontiguousarray(array)
        four = (*sizes, *(1,) * (4 - len(sizes)))
        made = self.library.base.ggml_new_tensor_4d(self.memory, _TYPES[array.dtype.name], *four)
        ctypes.memmove(self.library.base.ggml_get_data(made), array.ctypes.data, array.nbytes)
        return made

    def finish(self, result: int) -> None:
        self.result = result
        self.library.base.ggml_build_forward_expand(self.graph, result)

    def compute(self, threads: int) -> None:
        if self.library.cpu.ggml_graph_compute_with_ctx(self.memory, self.graph, threads):
            raise RuntimeError("ggml failed")

    def values(self, count: int) -> Array:
        """The first `count` float32 of the result."""
        address = self.library.base.ggml_get_data(self.result)
        return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address)).copy()

    def close(self) -> None:
        self.library.base.ggml_free(self.memory)


def indexer(library: ggml.Ggml, q: Array, keys: Array, w: Array) -> Graph:
    """One query token: q [1, H, D], keys [N, D] (float32, float16, bfloat16), w [1, H]."""
    (_, heads, width), count = q.shape, keys.shape[0]
    made = Graph(library, (keys.nbytes + count * 8) >> 20)
    arguments = (
        made.tensor(q, width, heads, 1),
        made.tensor(keys, width, 1, count),
        made.tensor(w, heads, 1),
        made.tensor(np.zeros(count, np.float16), count, 1),
    )
    made.finish(library.base.ggml_lightning_indexer(made.memory, *arguments))
    return made


def attention(library: ggml.Ggml, q: Array, rows: Array, latent: int, scale: float) -> Graph:
    """One query token: q [H, L + P] over rows [n, L + P]; values are their first L columns."""
    (heads, width), count = q.shape, rows.shape[0]
    made = Graph(library, 2 * rows.nbytes >> 20)
    queries = made.tensor(q, width, 1, heads)
    keys = made.tensor(rows, width, count, 1)
    values = made.tensor(rows[:, :latent], latent, count, 1)
    made.finish(library.base.ggml_flash_attn_ext(made.memory, queries, keys, values, None, scale, 0.0, 0.0))
    return made


def delta(library: ggml.Ggml, state: Array, q: Array, k: Array, v: Array, g: Array, beta: Array) -> Graph:
    """T tokens: q k g v [T, H, D], beta [T, H], state [H, D, D] with the value axis before the key axis.

    It multiplies q by D^-0.5 itself.
    """
    tokens, heads, width = q.shape
    made = Graph(library, (q.nbytes * 6 + state.nbytes * 3) >> 20)
    arguments = (
        *(made.tensor(array, width, heads, tokens) for array in (q, k, v, g)),
        made.tensor(beta, 1, heads, tokens),
        made.tensor(state, width, width, heads),
    )
    made.finish(library.base.ggml_gated_delta_net(made.memory, *arguments, 1))
    return made
