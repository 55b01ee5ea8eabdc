"""Reading a result folder and putting reports where they belong."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ...sandbox.base.errors import ConfigError, UsageError
from ...sandbox.base.files import atomic_write
from . import FORMATS, ReportRequest, render
from .github import append_summary


def load_result(path: Path) -> tuple[dict[str, Any], Path]:
    """The object in ``result.json`` (``path`` is that file or its folder), and the folder.

    Raises:
        UsageError: there is none, or it is no result of Whimbrel.
    """
    file = path / "result.json" if path.is_dir() else path
    try:
        data: Any = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise UsageError(f"there is no result at {file}", hint="give the --output folder of a run") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    if not isinstance(data, dict) or "schema_version" not in data or "status" not in data:
        raise UsageError(f"{file} is not a result of Whimbrel")
    return cast("dict[str, Any]", data), file.parent


def parse_request(text: str) -> ReportRequest:
    """``FORMAT`` or ``FORMAT=FILE``.

    Raises:
        ValueError: with the formats there are.
    """
    name, equals, path = text.partition("=")
    if name not in FORMATS or (equals and not path):
        raise ValueError(f"'{text}' is not FORMAT or FORMAT=FILE; the formats are {', '.join(FORMATS)}")
    return ReportRequest(name, Path(path) if path else None)


def write_reports(
    result: Mapping[str, Any], folder: Path, requests: Sequence[ReportRequest], *, stdout_taken: bool = False
) -> None:
    """Writes each; annotations without a file go to the runner's log, and the summary where it wants it.

    Raises:
        ConfigError: a file cannot be written.
        UsageError, RepositoryError: a report cannot be made of this result.
    """
    for request in requests:
        data = render(request.format, result, folder=folder)
        if request.format == "github":
            add_summary(result)
            if request.path is None:
                stream = sys.stderr if stdout_taken else sys.stdout
                stream.write(data.decode("utf-8"))
                stream.flush()
                continue
        write(request.path or folder / FORMATS[request.format], data)


def add_summary(result: Mapping[str, Any]) -> None:
    """Adds the report for people to the step's summary, on a runner that has one."""
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if not place:
        return
    try:
        append_summary(Path(place), result)
    except OSError as error:
        raise ConfigError(f"cannot write the step summary {place}: {error.strerror or error}") from error


def write(path: Path, data: bytes) -> None:
    """Puts a report into a file, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, data)
    except OSError as error:
        raise ConfigError(f"cannot write the report {path}: {error.strerror or error}") from error
