"""Taking a result's changes over into the person's files, whole or the part they chose."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .outcome import APPLICABLE


async def apply_changes(repository: Path, result: Mapping[str, Any], chosen: str = "") -> list[str]:
    """Applies ``chosen`` (a patch in git's format, a part of the result's own), or all of it.

    Returns the paths of the files that were changed.

    Raises:
        UsageError: there is no result with changes.
        PatchConflict: the files are not those the run started from.
    """
    from ...sandbox.base.errors import UsageError
    from ..fix.apply import apply_result

    output = str(result.get("output") or "")
    if result and not output:
        raise UsageError("the last result could not be written, so it cannot be applied")
    if result.get("status") not in (None, *APPLICABLE):
        raise UsageError(
            f"the last run ended as {result['status']}: nothing of it is for applying",
            hint="its attempts lie in " + output,
        )
    part = chosen.encode("utf-8", "surrogateescape") if chosen else None
    _, files = await apply_result(repository, Path(output) if output else None, part)
    if part is None:
        return files
    return [name for name in files if f" b/{name}\n" in chosen or f"/{name}\n" in chosen] or files
