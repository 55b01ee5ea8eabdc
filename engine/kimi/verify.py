"""A checkpoint's numbers against golden ones: `golden.safetensors` beside the weights.

It holds `input_ids` i64[1, T]; `logits` of the whole prefill; `layers.N.attn_out` and `layers.N.mlp_out`,
what comes out of a layer's two halves before the residual; for sparse attention `layers.N.topk_last`, the
positions the last token attends to; `decode_logits` of the positions `decode_from` - 1 ... T - 1, made by a
prefill of `decode_from` tokens and then one token at a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...sandbox.base.errors import ModelError
from .checkpoint import GOLDEN
from .parallel.runner import ParallelRunner
from .pool import CacheKind
from .protocol import Chunk
from .runner import KimiRunner
from .safetensors import Array, SafetensorsFile

TOLERANCE = 2e-3
FIRST_LAYER_TOLERANCE = 3e-5
"""For layer 0, where no error has been amplified yet: of the largest golden value, or of 1 if that is less.

Golden numbers are float32 themselves. Where the decay has no lower bound, the state after a strong decay is
small and its norm magnifies the rounding: 2e-5 in the attention and, through the next norm, 8e-5 in the
feed-forward output, where a float64 computation differs from the golden numbers as much as ours does.
"""
LAYER_SHARE = 0.05
"""For the other layers: 2e-3, or 1e-4 of the largest golden value where that is more (values above 20)."""
ROUNDED_SHARE = {"bf16": 0.05, "fp8": 0.15}
"""With rounded cached rows: of the largest golden value, in the attention of the first layer that reads them.

Seen are 0.5 % and 3 %. Of sparse attention only tokens that select everything count: rounded keys decide
between near ties. Layers before are judged as ever, layers after not at all: a rounded row can choose another
expert.
"""


@dataclass(frozen=True)
class Comparison:
    """The largest differences of one tensor."""

    name: str
    absolute: float
    """Largest |ours - golden|; infinite where either is no number."""
    relative: float
    """The same over the largest |golden|."""
    tolerance: float
    """Infinite where the difference is told and not judged."""

    @property
    def ok(self) -> bool:
        return self.absolute <= self.tolerance


@dataclass(frozen=True)
class Selection:
    """Whether a layer's indexer chose the golden positions."""

    name: str
    chosen: int
    missing: tuple[int, ...]
    """Golden positions that we did not choose."""
    same_order: bool
    judged: bool = True
    """False where cached keys are rounded, which decides between near ties."""

    @property
    def ok(self) -> bool:
        return not (self.judged and self.missing)


@dataclass
class Report:
    """Everything that was compared."""

    numbers: list[Comparison] = field(default_factory=list[Comparison])
    selections: list[Selection] = field(default_factory=list[Selection])

    @property
    def ok(self) -> bool:
        return all(entry.ok for entry in (*self.numbers, *self.selections))

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "numbers": [
                {
                    "name": n.name,
                    "absolute": n.absolute if np.isfinite(n.absolute) else None,
                    "relative": n.relative if np.isfinite(n.relative) else None,
                    "tolerance": n.tolerance if np.isfinite(n.tolerance) else None,
                    "ok": n.ok,
                }
                for n in self.numbers
            ],
            "selections": [
                {
                    "name": s.name,
                    "chosen": s.chosen,
                    "missing": list(s.missing),
                    "same_order": s.same_order,
                    "ok": s.ok,
                }
                for s in self.selections
            ],
        }


@dataclass
class _Record:
    """A `Trace` that keeps everything."""

    outputs: dict[str, Array] = field(default_factory=dict[str, Array])
    selections: dict[int, Array] = field(default_factory=dict[int, Array])

    def output(self, layer: int, kind: str, rows: Array) -> None:
        self.outputs[f"layers.{layer}.{kind}"] = rows.copy()

    def selection(self, layer: int, positions: Array) -> None:
        self.selections[layer] = positions.copy()


def verify(
    runner: KimiRunner | ParallelRunner,
    folder: Path,
    tolerance: float = TOLERANCE,
    cache: CacheKind = "f32",
) -> Report:
    """Compare a loaded model (in its exact mode) with the golden numbers in its folder.

    Args:
        cache: how the model's cached rows are kept; see `ROUNDED_SHARE` for rounded ones.

    Raises:
        ModelError: there are none, they lack the input, or they are of another model.
    """
    path = folder / GOLDEN
    if not path.is_file():
        raise ModelError(
            f"{folder} has no {GOLDEN} to compare with", hint="golden numbers come with test checkpoints"
        )
    golden = SafetensorsFile(path)
    if "input_ids" not in golden.entries:
        raise ModelError(f"{path} holds no input_ids")
    tokens = golden.read("input_ids").astype(np.int64).reshape(-1)
    report = Report()
    record = _Record()
    sequence = runner.new()
    (logits,) = runner.forward([Chunk(sequence, tokens, "all")], trace=record)
    sequence.close()
    assert logits is not None
    ours = {"logits": logits, **record.outputs}
    if "decode_logits" in golden.entries:
        ours["decode_logits"] = _decode(runner, golden, tokens, path)
    first, sparse = min(runner.config.full_layers, default=None), runner.config.dsa
    for name in sorted(golden.entries, key=_order):
        if re.fullmatch(r"layers\.\d+\.topk_last", name):
            if int(name.split(".")[1]) not in runner.config.own_layers:
                continue  # another process's layer
            report.selections.append(_selection(name, golden.read(name), record, judged=cache == "f32"))
        elif name not in ours and re.fullmatch(r"layers\.\d+\.(attn|mlp)_out", name):
            raise ModelError(f"{path} holds {name}, and the model has no such layer")
        elif name in ours:
            wanted, found = golden.read(name), ours[name]
            largest = float(np.abs(wanted).max(initial=0.0))
            limit = _limit(name, largest, tolerance)
            if cache in ROUNDED_SHARE and first is not None:
                here = _order(name)[:2]
                if name == f"layers.{first}.attn_out":
                    limit = ROUNDED_SHARE[cache] * largest
                    if sparse is not None and first in sparse.layers:
                        wanted, found = wanted[..., : sparse.top_k, :], found[: sparse.top_k]
                elif not name.startswith("layers.") or here >= (1, first):
                    limit = float("inf")
            report.numbers.append(_compare(name, found, wanted, limit, path))
    if not report.numbers:
        raise ModelError(f"{path} holds nothing to compare with")
    return report


def _limit(name: str, largest: float, tolerance: float) -> float:
    """What may differ: absolute for logits; in layers float32 rounds in proportion to what it holds."""
    if name.startswith("layers.0."):
        return min(tolerance, FIRST_LAYER_TOLERANCE * max(1.0, largest))
    return max(tolerance, tolerance * largest * LAYER_SHARE) if name.startswith("layers.") else tolerance


def _decode(runner: KimiRunner | ParallelRunner, golden: SafetensorsFile, tokens: Array, path: Path) -> Array:
    if "decode_from" not in golden.entries:
        raise ModelError(f"{path} holds decode_logits and no decode_from")
    start = int(golden.read("decode_from").reshape(-1)[0])
    if not 0 < start <= tokens.size:
        raise ModelError(f"{path}: decode_from is {start}, and there are {tokens.size} tokens")
    sequence = runner.new()
    rows: list[Array] = []
    for part in (tokens[:start], *np.split(tokens[start:], tokens.size - start)):
        if part.size:
            (row,) = runner.forward([Chunk(sequence, part)])
            assert row is not None
            rows.append(row)
    sequence.close()
    return np.concatenate(rows)


def _compare(name: str, ours: Array, golden: Array, tolerance: float, path: Path) -> Comparison:
    wanted = golden.astype(np.float64).reshape(-1, golden.shape[-1])
    if wanted.shape != ours.shape:
        raise ModelError(
            f"{path}: {name} has the shape {list(golden.shape)}, and the model gives {list(ours.shape)}"
        )
    if not (np.isfinite(ours).all() and np.isfinite(wanted).all()):
        return Comparison(name, float("inf"), float("inf"), tolerance)
    absolute = float(np.abs(ours - wanted).max(initial=0.0))
    largest = float(np.abs(wanted).max(initial=0.0))
    return Comparison(name, absolute, absolute / largest if largest else 0.0, tolerance)


def _selection(name: str, golden: Array, record: _Record, *, judged: bool) -> Selection:
    wanted = golden.reshape(-1)
    wanted = wanted[wanted >= 0]
    ours = record.selections.get(int(name.split(".")[1]), np.zeros(0, np.int64))
    missing = tuple(int(n) for n in np.setdiff1d(wanted, ours))
    extra = np.setdiff1d(ours, wanted).size
    if not missing and extra:
        missing = (-1,) * int(extra)
    return Selection(name, int(ours.size), missing, bool(np.array_equal(ours, wanted)), judged)


def _order(name: str) -> tuple[int, int, str]:
    match = re.match(r"layers\.(\d+)\.", name)
    return (1, int(match[1]), name) if match else (0, 0, "" if name == "logits" else name)
