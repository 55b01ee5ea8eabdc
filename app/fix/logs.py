"""The complete logs behind the evidence, kept beside the result."""

from __future__ import annotations

from pathlib import Path

from ...sandbox.base.files import atomic_write
from ...sandbox.base.tokens import mask_bytes
from .result import FixResult

MAX_LOG_BYTES = 16 << 20
MAX_TOTAL_BYTES = 128 << 20
_FOLDER = "logs"


def keep_logs(result: FixResult, output: Path) -> None:
    """Copies each evidence row's log into ``logs/`` of the output; ``log_path`` becomes relative to that.

    The run's own folder is about to go. Secrets of the environment are replaced; the row's hash is
    that of the log as it was. A log over ``MAX_LOG_BYTES`` (or beyond the total) is not
    copied: its row keeps the hash and has an empty ``log_path``.
    """
    folder = output / _FOLDER
    total = left_out = 0
    try:
        if folder.is_dir():
            for old in folder.glob("row-*.log"):
                old.unlink()
        for row in result.evidence:
            source = Path(row["log_path"]) if row.get("log_path") else None
            row["log_path"] = ""
            if source is None or not source.is_file():
                continue
            size = source.stat().st_size
            if size > MAX_LOG_BYTES or total + size > MAX_TOTAL_BYTES:
                left_out += 1
                continue
            folder.mkdir(exist_ok=True)
            name = f"row-{row['number']:03d}.log"
            atomic_write(folder / name, mask_bytes(source.read_bytes()))
            row["log_path"] = f"{_FOLDER}/{name}"
            total += size
    except OSError as error:
        result.note(f"the logs behind the evidence could not be kept: {error.strerror or error}")
    if left_out:
        result.note(
            f"{left_out} log(s) over {MAX_LOG_BYTES >> 20} MiB are not kept; the ledger has their hashes"
        )
