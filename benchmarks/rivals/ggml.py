"""ggml, the library inside llama.cpp, through ctypes: the shared libraries that llama-cpp-python builds.

Matrices are its own copies (mul_mat over many of them is one graph, so that starting its threads is paid once).
"""

from __future__ import annotations

import ctypes
from importlib import util
from pathlib import Path

import numpy as np

F32, Q8_0, BF16, MXFP4 = 0, 8, 30, 39
_P, _I64, _SIZE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t


class _Init(ctypes.Structure):
    _fields_ = [("mem_size", _SIZE), ("mem_buffer", _P), ("no_alloc", ctypes.c_bool)]


class Ggml:
    """The functions in use."""

    def __init__(self, folder: Path) -> None:
        self.base = ctypes.CDLL(str(folder / "libggml-base.so.0"), mode=ctypes.RTLD_GLOBAL)
        self.cpu = ctypes.CDLL(str(folder / "libggml-cpu.so.0"), mode=ctypes.RTLD_GLOBAL)
        for name, result, arguments in (
            ("ggml_init", _P, [_Init]),
            ("ggml_free", None, [_P]),
            ("ggml_new_tensor_2d", _P, [_P, ctypes.c_int, _I64, _I64]),
            ("ggml_mul_mat", _P, [_P, _P, _P]),
            ("ggml_new_graph_custom", _P, [_P, _SIZE, ctypes.c_bool]),
            ("ggml_build_forward_expand", None, [_P, _P]),
            ("ggml_get_data", _P, [_P]),
            ("ggml_backend_alloc_ctx_tensors_from_buft", _P, [_P, _P]),
            ("ggml_backend_buffer_free", None, [_P]),
            ("ggml_backend_tensor_set", None, [_P, _P, _SIZE, _SIZE]),
        ):
            function = getattr(self.base, name)
            function.restype, function.argtypes = result, arguments
        self.cpu.ggml_graph_compute_with_ctx.argtypes = [_P, _P, ctypes.c_int]
        self._quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, _P)(lambda *_: None)
        self.base.ggml_log_set(self._quiet, None)
        self.cpu.ggml_cpu_init()
        self.plain = self._buffer_type("ggml_backend_cpu_buffer_type", self.base)
        self.repacked = self._buffer_type("_Z35ggml_backend_cpu_repack_buffer_typev", self.cpu)

    def _buffer_type(self, name: str, library: ctypes.CDLL) -> int | None:
        function = getattr(library, name, None)
        if function is None:
            return None
        function.restype = _P
        return function()

    def matrices(
        self, kind: int, rows: int, columns: int, contents: list[bytes], repacked: bool
    ) -> Matrices | None:
        """Copies in ggml's layout (`contents`), repacked for the processor or not; None where it cannot."""
        buffer_type = self.repacked if repacked else self.plain
        return None if buffer_type is None else Matrices(self, kind, rows, columns, contents, buffer_type)


class Matrices:
    """Matrices of one shape and a graph that multiplies each of them with the same tokens."""

    def __init__(
        self, ggml: Ggml, kind: int, rows: int, columns: int, contents: list[bytes], buffer_type: int
    ) -> None:
        self.ggml, self.rows, self.columns = ggml, rows, columns
        base = ggml.base
        self.weights = base.ggml_init(_Init(len(contents) * 1024 + 4096, None, True))
        self.tensors = [base.ggml_new_tensor_2d(self.weights, kind, columns, rows) for _ in contents]
        self.buffer = base.ggml_backend_alloc_ctx_tensors_from_buft(self.weights, buffer_type)
        for tensor, content in zip(self.tensors, contents, strict=True):
            base.ggml_backend_tensor_set(tensor, content, 0, len(content))
        self.graph_memory: int | None = None

    def prepare(self, x: np.ndarray) -> None:
        """The graph for tokens f32[T, C]."""
        base = self.ggml.base
        if self.graph_memory:
            base.ggml_free(self.graph_memory)
        tokens, count = x.shape[0], len(self.tensors)
        size = tokens * (self.columns * 8 + self.rows * 4 * count) + count * 4096 + (64 << 20)
        self.graph_memory = base.ggml_init(_Init(size, None, False))
        data = base.ggml_new_tensor_2d(self.graph_memory, F32, self.columns, tokens)
        ctypes.memmove(base.ggml_get_data(data), x.ctypes.data, x.nbytes)
        self.graph = base.ggml_new_graph_custom(self.graph_memory, count * 2 + 8, False)
        self.results = [base.ggml_mul_mat(self.graph_memory, tensor, data) for tensor in self.tensors]
        for result in self.results:
            base.ggml_build_forward_expand(self.graph, result)
        self.tokens = tokens

    def compute(self, threads: int) -> None:
        """All products."""
        if self.ggml.cpu.ggml_graph_compute_with_ctx(self.graph_memory, self.graph, threads):
            raise RuntimeError("ggml failed")

    def result(self, which: int) -> np.ndarray:
        """f32[T, R] of one matrix."""
        address = self.ggml.base.ggml_get_data(self.results[which])
        array = (ctypes.c_float * (self.tokens * self.rows)).from_address(address)
        return np.ctypeslib.as_array(array).reshape(self.tokens, self.rows).copy()

    def close(self) -> None:
        if self.graph_memory:
            self.ggml.base.ggml_free(self.graph_memory)
        self.ggml.base.ggml_backend_buffer_free(self.buffer)
        self.ggml.base.ggml_free(self.weights)


def find() -> Ggml | None:
    """ggml from an installed llama-cpp-python (`make local`), or None."""
    spec = util.find_spec("llama_cpp")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations)), "lib")
    try:
        return Ggml(folder)
    except (OSError, AttributeError):
        return None


def mxfp4_blocks(packed: np.ndarray, scales: np.ndarray) -> bytes:
    """Our layout to ggml's: the scale before its 16 bytes, the first half of a block in the low nibbles."""
    rows, blocks = scales.shape
    codes = np.empty((rows, blocks, 32), np.uint8)
    codes[:, :, 0::2] = (packed & 15).reshape(rows, blocks, 16)
    codes[:, :, 1::2] = (packed >> 4).reshape(rows, blocks, 16)
    out = np.empty((rows, blocks, 17), np.uint8)
    out[:, :, 0] = scales
    out[:, :, 1:] = codes[:, :, :16] | codes[:, :, 16:] << 4
    return out.tobytes()


def q8_0_blocks(w: np.ndarray) -> bytes:
    """f32[R, C] rounded to ggml's Q8_0: a float16 scale before 32 codes."""
    rows, columns = w.shape
    parts = w.reshape(rows, columns // 32, 32)
    scale = (np.abs(parts).max(axis=2) / 127).astype(np.float16)
    divisor = np.maximum(scale.astype(np.float32), 1e-20)[:, :, None]
    codes = np.rint(parts / divisor).clip(-127, 127).astype(np.int8)
    out = np.empty((rows, columns // 32, 34), np.uint8)
    out[:, :, :2] = scale[:, :, None].view(np.uint8)
    out[:, :, 2:] = codes.view(np.uint8)
    return out.tobytes()
