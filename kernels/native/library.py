"""The kernels' shared library: found, checked, loaded with ctypes; or the reason why numpy serves instead.

`WHIMBREL_KERNELS` names a variant (portable, avx2, avx512, amx) or `numpy`; `WHIMBREL_THREADS` the number of
threads.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..arrays import Array, KernelError
from . import build

VARIANTS = ("portable", "avx2", "avx512", "amx")
REBUILD = "python -m whimbrel.kernels.native.build"

_numpy_forced = False


@dataclass(frozen=True)
class Status:
    """What `doctor` says."""

    variant: str
    """portable, avx2, avx512, amx (avx512 with the tile unit), or numpy."""
    threads: int
    """0 with numpy: its own threads are not ours to count."""
    reason: str
    """Why it is numpy, or empty."""


def library() -> ctypes.CDLL | None:
    """The library, or None where numpy serves; the reason is in `status`.

    Raises:
        KernelError: WHIMBREL_KERNELS names no variant, or one that this machine does not have.
    """
    return None if _numpy_forced else _load()[0]


def status() -> Status:
    """The variant in use. Raises as `library`."""
    loaded, reason = _load()
    if loaded is None or _numpy_forced:
        return Status("numpy", 0, reason)
    return Status(VARIANTS[loaded.whimbrel_variant()], loaded.whimbrel_threads(), "")


def usable() -> list[str]:
    """Variants that this machine can run, numpy last."""
    loaded, _ = _load()
    native = [] if loaded is None else [n for i, n in enumerate(VARIANTS) if loaded.whimbrel_usable(i)]
    return [*native, "numpy"]


@contextmanager
def using(variant: str, threads: int = 0) -> Generator[None]:
    """Runs with another variant and number of threads (0: as before); of the whole process, so for tests.

    Raises:
        KernelError: the variant cannot be used here.
    """
    global _numpy_forced
    loaded, reason = _load()
    before = _numpy_forced
    if variant == "numpy":
        _numpy_forced = True
        try:
            yield
        finally:
            _numpy_forced = before
        return
    if loaded is None:
        raise KernelError(f"kernels cannot run as {variant}: {reason}")
    was, had = loaded.whimbrel_variant(), loaded.whimbrel_threads()
    _choose(loaded, variant)
    _numpy_forced = False
    if threads:
        loaded.whimbrel_set_threads(threads)
    try:
        yield
    finally:
        loaded.whimbrel_set_variant(was)
        loaded.whimbrel_set_threads(had)
        _numpy_forced = before


def forget() -> None:
    """Looks for the library anew at the next call, after a build."""
    _load.cache_clear()


def pointer(array: Array) -> int:
    """The address of a C-contiguous array's first element, for a `c_void_p` parameter."""
    assert array.flags.c_contiguous
    return array.ctypes.data


def _choose(loaded: ctypes.CDLL, variant: str) -> None:
    if variant not in VARIANTS:
        raise KernelError(f"there are no kernels {variant!r}: {', '.join(VARIANTS)} or numpy")
    if loaded.whimbrel_set_variant(VARIANTS.index(variant)):
        raise KernelError(f"this processor, or the compiler that built the kernels, has no {variant}")


@cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    wanted = os.environ.get("WHIMBREL_KERNELS", "")
    if wanted == "numpy":
        return None, "WHIMBREL_KERNELS=numpy"
    loaded, reason = _open(Path(build.HERE, build.LIBRARY))
    if wanted:
        if wanted not in VARIANTS:
            raise KernelError(f"there are no kernels {wanted!r}: {', '.join(VARIANTS)} or numpy")
        if loaded is None:
            raise KernelError(f"WHIMBREL_KERNELS={wanted}, but the kernels are missing: {reason}")
        _choose(loaded, wanted)
    return loaded, reason


def _open(path: Path) -> tuple[ctypes.CDLL | None, str]:
    if not path.exists():
        return None, "the native kernels were not built at installation"
    try:
        loaded = ctypes.CDLL(str(path))
        loaded.whimbrel_sources.restype = ctypes.c_char_p
        built_from = loaded.whimbrel_sources().decode()
    except (OSError, AttributeError) as error:
        return None, f"{path} cannot be loaded: {error}"
    if built_from != build.fingerprint():
        return None, "the native kernels were built from other sources than these"
    return loaded, ""
