"""Which model licences the person has accepted, kept by the hash of the licence's text."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from ..sandbox.base.errors import ConfigError, PermissionDenied
from ..sandbox.base.files import atomic_write
from .paths import state_dir

ACCEPT = "WHIMBREL_ACCEPT_LICENCE"
"""Set to 1 where nobody can be asked (CI): accepts for this run and is not remembered."""


class LicenceStore:
    """The accepted licences; a file in the person's state directory."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or state_dir() / "licences.json"

    def accepted(self) -> dict[str, dict[str, str]]:
        """Digest to name, checkpoint and time.

        Raises:
            ConfigError: the file cannot be read; it is never taken for "nothing" or for "everything".
        """
        try:
            data: Any = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise self._broken() from error
        entries: Any = cast(dict[str, Any], data).get("accepted") if isinstance(data, dict) else None
        if not isinstance(entries, dict):
            raise self._broken()
        found: dict[str, dict[str, str]] = {}
        for digest, about in cast(dict[str, Any], entries).items():
            if not isinstance(about, dict):
                raise self._broken()
            found[digest] = {str(key): str(value) for key, value in cast(dict[str, Any], about).items()}
        return found

    def accept(self, digest: str, name: str, folder: Path) -> None:
        when = datetime.now(UTC).isoformat(timespec="seconds")
        about = {"name": name, "checkpoint": str(folder.resolve()), "when": when}
        self._save({**self.accepted(), digest: about})

    def withdraw(self, digest: str | None) -> int:
        """Takes one acceptance (None: all) back; returns how many there were."""
        entries = self.accepted()
        kept = {} if digest is None else {key: about for key, about in entries.items() if key != digest}
        if len(kept) != len(entries):
            self._save(kept)
        return len(entries) - len(kept)

    def _save(self, entries: dict[str, dict[str, str]]) -> None:
        text = json.dumps({"format": 1, "accepted": entries}, indent=1, sort_keys=True)
        atomic_write(self.path, text.encode(), mode=0o600)

    def _broken(self) -> ConfigError:
        return ConfigError(
            f"{self.path} cannot be read", hint="move it away; licences are then asked for again"
        )


def require_licence(folder: Path, *, accept: bool = False) -> None:
    """Before any checkpoint is loaded. ``accept``: the person said so on the command line; it is remembered.

    Raises:
        PermissionDenied: the licence has not been accepted.
    """
    from ..engine.cluster.licence import licence_of

    if not folder.is_dir():
        return  # loading says so better
    licence = licence_of(folder)
    if not licence.needs_acceptance or os.environ.get(ACCEPT) == "1":
        return
    store = LicenceStore()
    if licence.digest in store.accepted():
        return
    if accept:
        store.accept(licence.digest, licence.name, folder)
        return
    raise PermissionDenied(
        f"the checkpoint {folder} comes under terms that have not been accepted: {licence.name}",
        hint=f"read them with `whimbrel licence show {folder}`, then `whimbrel licence accept {folder}`; "
        f"in CI {ACCEPT}=1",
    )


def require_for_model(spec: str) -> None:
    """The same for a model string; only ``kimi:DIR`` loads a checkpoint of its own.

    Raises:
        PermissionDenied: the licence has not been accepted.
    """
    kind, colon, folder = spec.strip().partition(":")
    if kind == "kimi" and colon and folder:
        require_licence(Path(folder).expanduser())
