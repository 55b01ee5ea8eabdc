"""Whose turn it is: waiting requests of several owners, the least served owner first."""

from __future__ import annotations

from collections.abc import Iterator

from .line import Line

_MOST_OWNERS = 4096
"""Remembered beyond those that wait."""


class FairQueue:
    """Within an owner in order of arrival; those that had to give up their place come first of all."""

    def __init__(self) -> None:
        self._again: list[Line] = []
        self._owners: dict[str, list[Line]] = {}
        self._service: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._again) + sum(len(lines) for lines in self._owners.values())

    def __iter__(self) -> Iterator[Line]:
        yield from self._again
        for lines in self._owners.values():
            yield from lines

    def add(self, line: Line, *, again: bool = False) -> None:
        if again:
            self._again.append(line)
            self._again.sort(key=lambda each: each.number)
            return
        owner = line.request.owner
        if owner not in self._owners:
            # Who comes back after a while has saved nothing up.
            least = min((self._service[each] for each in self._owners), default=0.0)
            self._service[owner] = max(self._service.get(owner, 0.0), least)
            if len(self._service) > _MOST_OWNERS:
                self._service = {each: self._service[each] for each in (*self._owners, owner)}
        self._owners.setdefault(owner, []).append(line)

    def first(self) -> Line:
        """The next one (it stays in the queue)."""
        if self._again:
            return self._again[0]
        owner = min(self._owners, key=lambda each: (self._service[each], self._owners[each][0].number))
        return self._owners[owner][0]

    def remove(self, line: Line) -> None:
        """Takes one out; the first time its prompt counts as served. Harmless when it is not there."""
        if line in self._again:
            self._again.remove(line)
            return
        owner = line.request.owner
        lines = self._owners.get(owner, [])
        if line in lines:
            lines.remove(line)
            self.served(owner, line.prompt_tokens)
        if not lines:
            self._owners.pop(owner, None)

    def served(self, owner: str, tokens: int) -> None:
        """Tokens were computed for an owner."""
        if owner in self._service:
            self._service[owner] += tokens
