"""A numpy array with the few methods of a tensor that Triton's interpreter asks for."""

from __future__ import annotations

import numpy as np


class HostTensor:
    """Shares the array's memory: the interpreter works on it in place."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.ascontiguousarray(array)
        self.dtype, self.shape = self.array.dtype, self.array.shape

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> HostTensor:
        return self

    def cpu(self) -> HostTensor:
        return self

    def new_empty(self, size: int, device: str) -> HostTensor:
        return HostTensor(np.empty(size, self.dtype))

    def set_(self, storage: HostTensor, offset: int, size: object, stride: object) -> None:
        self.array, self.shape = storage.array, storage.shape

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.shape

    def stride(self) -> None:
        return None

    def copy_(self, other: HostTensor) -> None:
        assert other.array is self.array
