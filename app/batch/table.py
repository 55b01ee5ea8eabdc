"""What a person sees while a batch runs: a living table on a terminal, a line per issue elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any, Protocol


class Board(Protocol):
    def ended(self, line: dict[str, Any]) -> None: ...

    def tick(self, running: Iterable[str]) -> None: ...

    def close(self) -> None: ...


def make_board(total: int, skipped: int, *, as_json: bool) -> Board:
    if as_json:
        return _Lines()
    out = sys.stdout
    if out and out.isatty():
        return _Living(total, skipped)
    return _Plain(total, skipped)


class _Lines:
    """The result lines themselves."""

    def ended(self, line: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(line, ensure_ascii=True) + "\n")
        sys.stdout.flush()

    def tick(self, running: Iterable[str]) -> None:
        return

    def close(self) -> None:
        return


class _Plain:
    def __init__(self, total: int, skipped: int) -> None:
        self._total, self._count = total, 0
        if skipped:
            self._write(f"{skipped} of {total + skipped} are done already")

    def ended(self, line: dict[str, Any]) -> None:
        self._count += 1
        why = "" if line["status"] == "fixed" else f"  {line['message']}"
        self._write(
            f"[{self._count}/{self._total}] {line['id']}: {line['status']} in {line['seconds']:.1f} s{why}"
        )

    def tick(self, running: Iterable[str]) -> None:
        return

    def close(self) -> None:
        return

    def _write(self, text: str) -> None:
        sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
        sys.stdout.flush()


class _Living:
    """Counts, what runs now, and the latest results."""

    SHOWN = 12

    def __init__(self, total: int, skipped: int) -> None:
        from rich.live import Live

        self._total, self._skipped = total, skipped
        self._counts: Counter[str] = Counter()
        self._latest: list[dict[str, Any]] = []
        self._running: list[str] = []
        self._began = time.monotonic()
        self._live = Live(self._table(), refresh_per_second=4)
        self._live.start()

    def ended(self, line: dict[str, Any]) -> None:
        self._counts[str(line["status"])] += 1
        self._latest = [*self._latest, line][-self.SHOWN :]
        self._live.update(self._table())

    def tick(self, running: Iterable[str]) -> None:
        self._running = list(running)
        self._live.update(self._table())

    def close(self) -> None:
        self._running = []
        self._live.update(self._table())
        self._live.stop()

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        done = sum(self._counts.values())
        counts = ", ".join(f"{count} {status}" for status, count in self._counts.most_common())
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        title = f"{done} of {self._total} in {minutes}:{seconds:02d}" + (f": {counts}" if counts else "")
        if self._skipped:
            title += f" ({self._skipped} were done before)"
        # Ids and messages are foreign text: Text, never markup.
        table = Table(title=Text(title), title_justify="left", expand=False)
        for name in ("issue", "status", "seconds", "what happened"):
            table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=60)
        for line in self._latest:
            style = "green" if line["status"] == "fixed" else "yellow"
            table.add_row(
                Text(str(line["id"])),
                Text(str(line["status"]), style),
                Text(f"{line['seconds']:.1f}"),
                Text(" ".join(str(line["message"]).split())),
            )
        for name in self._running[: self.SHOWN]:
            table.add_row(Text(name), Text("running", "dim"), Text(""), Text(""))
        return table
