"""A plain checkpoint to one with MXFP4 experts: tensor by tensor, resumable, with an error figure for each.

Everything but the routed experts is copied as it is. What is finished is recorded shard by shard in
``quantize-report.jsonl`` beside the new files, so that a run that was killed goes on where it was; the index
and config.json are written last, so that a folder that is not complete cannot be taken for one that is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from ...kernels.arrays import KernelError
from ...kernels.mxfp4 import quantise_with_error
from ...sandbox.base.errors import ConfigError, ModelError, UsageError
from ...sandbox.base.files import atomic_write
from ..cluster.machines import shown_bytes
from .checkpoint import FLOATS, INDEX, Checkpoint
from .config import load_config
from .inventory import MXFP4_GROUP
from .safetensors import Array, Entry, SafetensorsFile
from .safetensors_writer import DiskFull, Planned, file_bytes, index_of, shard_name, write_file
from .tiny import quantization_config

REPORT: Final = "quantize-report.jsonl"
SHARD_BYTES: Final = 4_000_000_000
_EXPERT = re.compile(r"(.*\.experts\.\d+\.)(w[123])\.weight")
_LARGEST_SIDE_FILE = 64_000_000


@dataclass(frozen=True)
class TensorError:
    """How far a matrix lies from what it was: relative RMS error, largest absolute error."""

    name: str
    rms: float
    largest: float


@dataclass
class Outcome:
    """What a run did."""

    shards: int
    resumed: int
    """Shards that an earlier run had finished."""
    tensors: int
    source_bytes: int
    bytes: int
    errors: list[TensorError] = field(default_factory=list[TensorError])

    @property
    def mean_rms(self) -> float:
        return sum(each.rms for each in self.errors) / len(self.errors) if self.errors else 0.0

    @property
    def worst(self) -> TensorError | None:
        return max(self.errors, key=lambda each: each.rms, default=None)


@dataclass(frozen=True)
class _Source:
    file: SafetensorsFile
    entry: Entry


def quantise_checkpoint(
    source: Path,
    target: Path,
    *,
    shard_bytes: int = SHARD_BYTES,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Writes ``target``.

    Args:
        shard_bytes: a shard ends with the tensor (or expert) that reaches this.
        threads: matrices rounded at the same time.
        progress: called with (bytes written, bytes in all) after every shard.

    Raises:
        UsageError: ``target`` holds something else, or the source is quantised already.
        ModelError: the source is incomplete, or a matrix cannot be rounded (not finite, wrong width).
        DiskFull: no room; what is complete stays, and the same command goes on from there.
    """
    if target.resolve() == source.resolve():
        raise UsageError("the checkpoint cannot be quantised onto itself", hint="name another folder")
    config = load_config(source)
    checkpoint = Checkpoint(source)
    sources = {
        name: _Source(file, entry) for file in checkpoint.files for name, entry in file.entries.items()
    }
    shards = _plan(source, sources, shard_bytes)
    named = [(shard_name(number, len(shards)), shard) for number, shard in enumerate(shards, start=1)]
    fingerprint = _fingerprint(checkpoint, named)
    target.mkdir(parents=True, exist_ok=True)
    report = _Report(target, fingerprint)
    done = report.finished(named)
    left = [(name, shard) for name, shard in named if name not in done]
    total = sum(file_bytes(shard) for _, shard in named)
    needed = sum(file_bytes(shard) for _, shard in left)
    free = shutil.disk_usage(target).free
    if needed > free:
        raise DiskFull(
            f"{target} needs {shown_bytes(needed)} more and the disk has {shown_bytes(free)} free",
            hint="make room and run the same command again",
        )
    written = total - needed
    with ThreadPoolExecutor(max_workers=max(1, threads)) as pool:
        for name, shard in left:
            rounded = _Rounded(pool, shard, sources, ahead=max(1, threads))
            try:
                write_file(target / name, shard, rounded.take)
            finally:
                rounded.stop()
            report.finish(name, file_bytes(shard), rounded.errors)
            written += file_bytes(shard)
            if progress is not None:
                progress(written, total)
    _copy_side_files(source, target)
    atomic_write(target / INDEX, index_of(named))
    atomic_write(target / "config.json", _changed_config(config.raw))
    checkpoint.close()
    return Outcome(
        shards=len(named),
        resumed=len(done),
        tensors=sum(len(shard) for _, shard in named),
        source_bytes=sum(each.entry.nbytes for each in sources.values()),
        bytes=total,
        errors=report.errors(),
    )


def _plan(source: Path, sources: dict[str, _Source], shard_bytes: int) -> list[list[Planned]]:
    """Shards of tensors in the order of the source; the six tensors of an expert side by side."""
    shards: list[list[Planned]] = [[]]
    size = 0
    seen: set[str] = set()
    plain = 0
    for name, found in sources.items():
        if name in seen:
            continue
        match = _EXPERT.fullmatch(name)
        if match is None:
            group = [Planned(name, found.entry.dtype, found.entry.shape)]
            seen.add(name)
        else:
            names = [each for kind in ("w1", "w2", "w3") if (each := f"{match[1]}{kind}.weight") in sources]
            group = [planned for each in names for planned in _packed(source, sources[each].entry)]
            seen.update(names)
            plain += len(names)
        if shards[-1] and size >= shard_bytes:
            shards.append([])
            size = 0
        shards[-1] += group
        size += sum(planned.nbytes for planned in group)
    if not plain:
        packed = any(name.endswith(".weight_packed") for name in sources)
        why = "its experts are MXFP4 already" if packed else "it has no routed experts"
        raise UsageError(f"there is nothing to quantise in {source}: {why}")
    return shards


def _packed(source: Path, entry: Entry) -> list[Planned]:
    if len(entry.shape) != 2 or entry.shape[1] % MXFP4_GROUP or entry.dtype not in FLOATS:
        raise ModelError(
            f"{source}: {entry.name} is {entry.dtype}{list(entry.shape)} and cannot become MXFP4",
            hint=f"a floating-point matrix whose width is a multiple of {MXFP4_GROUP} is needed",
        )
    rows, columns = entry.shape
    return [
        Planned(f"{entry.name}_packed", "U8", (rows, columns // 2)),
        Planned(f"{entry.name}_scale", "U8", (rows, columns // MXFP4_GROUP)),
    ]


class _Rounded:
    """Hands out a shard's arrays in order, rounding a few matrices ahead."""

    def __init__(
        self, pool: ThreadPoolExecutor, shard: Sequence[Planned], sources: dict[str, _Source], *, ahead: int
    ) -> None:
        self._pool, self._sources = pool, sources
        names = (each.name.removesuffix("_packed") for each in shard if each.name.endswith(".weight_packed"))
        self._jobs: Iterator[str] = iter([name for name in names if name in sources])
        self._running: deque[tuple[str, Future[tuple[Array, Array, TensorError]]]] = deque()
        self._ahead = ahead
        self._scales: dict[str, Array] = {}
        self.errors: list[TensorError] = []

    def take(self, planned: Planned) -> Array:
        found = self._sources.get(planned.name)
        if found is not None:
            return found.file.read(found.entry.name)
        if planned.name in self._scales:
            return self._scales.pop(planned.name)
        self._fill()
        name, running = self._running.popleft()
        packed, scales, error = running.result()
        self._fill()
        self.errors.append(error)
        self._scales[f"{name}_scale"] = scales
        return packed

    def stop(self) -> None:
        for _, running in self._running:
            running.cancel()
        for _, running in self._running:
            with contextlib.suppress(Exception, BaseException):
                running.result()

    def _fill(self) -> None:
        while len(self._running) < self._ahead and (name := next(self._jobs, None)) is not None:
            self._running.append((name, self._pool.submit(_round, self._sources[name])))


def _round(source: _Source) -> tuple[Array, Array, TensorError]:
    name = source.entry.name
    weights = source.file.read(name).astype(np.float32)
    try:
        made = quantise_with_error(weights)
    except KernelError as error:
        raise ModelError(f"{source.file.path}: {name} cannot become MXFP4: {error}") from error
    # In float64: the squares of a large matrix add up to more than float32 tells apart.
    squares = float(np.einsum("ij,ij->", weights, weights, dtype=np.float64))
    rms = (made.squared_error / squares) ** 0.5 if squares else 0.0
    return made.packed, made.scales, TensorError(name, rms, made.largest_error)


class _Report:
    """The record of what is finished: one JSON object a line, a shard's errors before the shard itself."""

    def __init__(self, target: Path, fingerprint: str) -> None:
        self._path = target / REPORT
        self._target = target
        self._lines: list[dict[str, Any]] = []
        start = {"quantize": 1, "source": fingerprint}
        kept = _complete_lines(self._path)
        if kept and kept[0] != start:
            raise UsageError(
                f"{target} holds the work of another run (another source, or other options)",
                hint="name another folder, or remove that one",
            )
        if not kept and any(path.name != REPORT for path in target.iterdir()):
            raise UsageError(f"{target} is not empty", hint="name a folder that does not exist yet")
        self._lines = kept or [start]
        atomic_write(self._path, b"".join(_line(each) for each in self._lines))

    def finished(self, named: Sequence[tuple[str, Sequence[Planned]]]) -> set[str]:
        """Shards that are recorded and there in full."""
        recorded = {each["shard"]: each["bytes"] for each in self._lines if "shard" in each}
        done: set[str] = set()
        for name, shard in named:
            path = self._target / name
            if recorded.get(name) == file_bytes(shard) and path.is_file():
                done |= {name} if path.stat().st_size == file_bytes(shard) else set()
        return done

    def finish(self, name: str, size: int, errors: Sequence[TensorError]) -> None:
        new: list[dict[str, Any]] = [
            {"tensor": each.name, "rms": float(f"{each.rms:.4g}"), "largest": float(f"{each.largest:.4g}")}
            for each in errors
        ]
        new.append({"shard": name, "bytes": size})
        self._lines += new
        # Appended, not replaced: a report of a quarter of a million lines is written once.
        with self._path.open("ab") as file:
            file.write(b"".join(_line(each) for each in new))
            file.flush()
            os.fsync(file.fileno())

    def errors(self) -> list[TensorError]:
        latest = {each["tensor"]: each for each in self._lines if "tensor" in each}
        return [TensorError(name, each["rms"], each["largest"]) for name, each in latest.items()]


def _complete_lines(path: Path) -> list[dict[str, Any]]:
    """The record up to the last shard; what a killed run left after it is dropped."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    lines: list[dict[str, Any]] = []
    whole = 0
    for raw in content.splitlines():
        try:
            found: Any = json.loads(raw)
        except (ValueError, RecursionError):
            break
        if not isinstance(found, dict):
            break
        lines.append(cast(dict[str, Any], found))
        if "shard" in found or "quantize" in found:
            whole = len(lines)
    return lines[:whole]


def _line(entry: dict[str, Any]) -> bytes:
    return (json.dumps(entry, separators=(",", ":")) + "\n").encode()


def _fingerprint(checkpoint: Checkpoint, named: Sequence[tuple[str, Sequence[Planned]]]) -> str:
    """Of the source's files and of what is made of them."""
    digest = hashlib.sha256()
    for file in checkpoint.files:
        about = file.path.stat()
        digest.update(f"{file.path.name} {about.st_size} {about.st_mtime_ns}\n".encode())
    for name, shard in named:
        digest.update(f"{name} {[(each.name, each.dtype, each.shape) for each in shard]}\n".encode())
    return digest.hexdigest()


def _copy_side_files(source: Path, target: Path) -> None:
    """Tokenizer, templates, licence: everything but weights, golden numbers and what is made anew."""
    for path in sorted(source.iterdir()):
        anew = path.name in (INDEX, "config.json", REPORT) or path.name.startswith(".")
        if anew or path.suffix == ".safetensors" or not path.is_file():
            continue
        if path.stat().st_size <= _LARGEST_SIDE_FILE:
            atomic_write(target / path.name, path.read_bytes())


def _changed_config(raw: Any) -> bytes:
    changed = dict(raw)
    holder: Any = changed.get("text_config")
    if isinstance(holder, dict):
        changed["text_config"] = {
            **cast(dict[str, Any], holder),
            "quantization_config": quantization_config(),
        }
    else:
        changed["quantization_config"] = quantization_config()
    return (json.dumps(changed, indent=1, ensure_ascii=False) + "\n").encode()
