"""Machines as a planner sees them (memory, bandwidth, fast links), and sizes as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ...sandbox.base.errors import UsageError


@dataclass(frozen=True)
class Device:
    """A GPU by its data sheet.

    Args:
        memory: bytes (decimal gigabytes of the data sheet).
        bandwidth: bytes per second of its memory.
        linked: GPUs that share the fast link (NVLink or its like); tensor parallelism stays inside.
    """

    name: str
    memory: int
    bandwidth: float
    linked: int = 8


_GB: Final = 10**9
DEVICES: Final[tuple[Device, ...]] = (
    Device("A100", 80 * _GB, 2.0e12),
    Device("H100", 80 * _GB, 3.35e12),
    Device("H200", 141 * _GB, 4.8e12),
    Device("B200", 180 * _GB, 8.0e12),
    Device("B300", 288 * _GB, 8.0e12),
    Device("GB200", 186 * _GB, 8.0e12, 72),
    Device("GB300", 288 * _GB, 8.0e12, 72),
    Device("MI300X", 192 * _GB, 5.3e12),
    Device("MI325X", 256 * _GB, 6.0e12),
    Device("MI355X", 288 * _GB, 8.0e12),
    Device("RTX4090", 24 * _GB, 1.0e12, 1),
    Device("RTX5090", 32 * _GB, 1.8e12, 1),
)
DISKS: Final[dict[str, float]] = {"nvme": 7e9, "sata": 0.55e9, "hdd": 0.2e9}
"""Bytes per second of long reads."""

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kKmMgGtT]?)(i?)[bB]?")
_GPUS = re.compile(r"(?:([0-9]{1,5})\s*[xX*]\s*)?([A-Za-z][A-Za-z0-9 -]*)(?:@([0-9.]+\s*[GT]i?B))?")


@dataclass(frozen=True)
class Cluster:
    count: int
    device: Device


def parse_cluster(text: str) -> Cluster | None:
    """``8xH200``, ``B300``, ``4xMYCARD@96GB``; None for ``cpu``.

    Raises:
        UsageError: another form, or a GPU whose memory is not known.
    """
    if text.strip().lower() in ("cpu", "none", "0"):
        return None
    match = _GPUS.fullmatch(text.strip())
    count = int(match[1] or 1) if match else 0
    if match is None or not 1 <= count <= 4096:
        raise UsageError(f"--gpus {text!r} is no number of GPUs", hint="for example 8xH200, or cpu")
    wanted = re.sub(r"[^A-Z0-9]", "", match[2].upper())
    known = next((device for device in DEVICES if device.name == wanted), None)
    if match[3]:
        base = known or Device(match[2].strip(), 0, 0.0)
        return Cluster(count, Device(base.name, parse_size(match[3]), base.bandwidth, base.linked))
    if known is None:
        names = ", ".join(device.name for device in DEVICES)
        raise UsageError(
            f"the memory of a {match[2].strip()} is not known here",
            hint=f"known: {names}; or give it: {count}x{match[2].strip()}@96GB",
        )
    return Cluster(count, known)


def parse_size(text: str, *, binary: bool = False) -> int:
    """``64GB`` (decimal), ``64GiB`` (binary) as bytes; ``binary``: both mean the latter, as memory is sold.

    Raises:
        UsageError: another form.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no size", hint="for example 64GB or 1.5TiB")
    power = " KMGT".index(match[2].upper() or " ")
    return int(float(match[1]) * (1024 if match[3] or binary else 1000) ** power)


def shown_bytes(count: float) -> str:
    """Bytes as a person reads them, in decimal units as disks and releases are counted."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:,.3f} {unit}" if unit == "TB" else f"{count / size:,.2f} {unit}"
    return f"{count / 1e3:,.1f} kB"


def parse_tokens(text: str) -> int:
    """``1M``, ``128k`` (binary, as context lengths are) or a plain number.

    Raises:
        UsageError: another form, or none at all.
    """
    match = re.fullmatch(r"([0-9][0-9_,]*(?:\.[0-9]+)?)\s*([kKmM]?)", text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no number of tokens", hint="for example 128k or 1M")
    scale = {"": 1, "k": 1024, "m": 1024**2}[match[2].lower()]
    tokens = int(float(match[1].replace("_", "").replace(",", "")) * scale)
    if not 1 <= tokens <= 2**40:
        raise UsageError(f"{text!r} is no number of tokens that a plan could be made for")
    return tokens


def parse_disk(text: str) -> float:
    """``nvme``, ``sata``, ``hdd`` or a rate such as ``3GB/s``, as bytes per second."""
    known = DISKS.get(text.strip().lower())
    if known is not None:
        return known
    rate = text.strip().removesuffix("/s")
    if rate == text.strip():
        raise UsageError(f"--disk {text!r} is not known", hint=f"{', '.join(DISKS)}, or a rate such as 3GB/s")
    return float(max(parse_size(rate), 1))
