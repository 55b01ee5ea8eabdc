"""The session of one run: opened when the repository is known, closed when the verdict is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..evidence import EvidenceLedger
from ..sessions import SessionStore, SessionWriter
from .options import FixOptions


class Recording:
    """Holds the store and the writer; every evidence row goes into the session as it is made."""

    def __init__(self, store: SessionStore, session: SessionWriter) -> None:
        self._store = store
        self.session = session

    @classmethod
    def begin(
        cls,
        options: FixOptions,
        repository: Path,
        title: str,
        run_id: str,
        ledger: EvidenceLedger,
        warn: Callable[[str], None],
    ) -> Recording:
        store = SessionStore.open(notice=warn)
        session = store.create(title=title, repository=str(repository), model=options.model, on_problem=warn)
        session.append(
            "run_started",
            {
                "run_id": run_id,
                "repository": str(repository),
                "revision": options.revision,
                "model": options.model,
                "effort": options.effort,
                "sandbox": options.sandbox,
                "seed": options.seed,
            },
        )
        for row in ledger.rows:
            session.evidence(row)
        ledger.listen(session.evidence)
        return cls(store, session)

    def end(self, status: str, message: str) -> None:
        """Records the verdict and gives the session free; idempotent."""
        self.session.append("run_ended", {"status": status, "message": message})
        self.session.close(status)
        self._store.close()
