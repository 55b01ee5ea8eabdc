"""Puts streamed tool-call fragments together, whatever the server does to ids and indexes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from ..chat import StreamEvent, ToolCallArguments, ToolCallEnd, ToolCallStart


class _Call:
    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.name = ""
        self.arguments: list[str] = []
        self.announced = False

    def complete(self) -> bool:
        """Whether the arguments are a whole JSON object, so that more would spoil them."""
        try:
            return isinstance(json.loads("".join(self.arguments)), dict)
        except ValueError:
            return False


class ToolCallAccumulator:
    """Fragments of one step in, call events out.

    Which call a fragment belongs to, first rule that fits: an id already seen names
    its call (unless that one is complete and this fragment brings a name under another
    index: then the server gave one id twice); a new id opens a call even if its index was
    used before; a known index
    names the call that last held it; without either, the call opened last (unless
    that one is complete and this fragment brings a name). The first name that is not
    empty stays. Empty arguments mean ``{}``.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def feed(self, fragment: dict[str, Any]) -> Iterator[StreamEvent]:
        """Takes one entry of ``delta.tool_calls``."""
        raw_function = fragment.get("function")
        function: dict[str, Any] = raw_function if isinstance(raw_function, dict) else {}
        name = function.get("name")
        call = self._find(fragment, opens=isinstance(name, str) and bool(name))
        if isinstance(name, str) and name and not call.name:
            call.name = name
        if call.name and not call.announced:
            call.announced = True
            yield ToolCallStart(id=call.id, name=call.name)
            if call.arguments:
                yield ToolCallArguments(id=call.id, delta="".join(call.arguments))
        arguments = function.get("arguments")
        if isinstance(arguments, dict | list):
            arguments = json.dumps(arguments)
        if isinstance(arguments, str) and arguments:
            call.arguments.append(arguments)
            if call.announced:
                yield ToolCallArguments(id=call.id, delta=arguments)

    def finish(self) -> Iterator[StreamEvent]:
        """Ends every call, in the order of opening; nameless calls are reported as they are."""
        for call in self._calls:
            if not call.announced:
                yield ToolCallStart(id=call.id, name=call.name)
            arguments = "".join(call.arguments)
            yield ToolCallEnd(id=call.id, name=call.name, arguments=arguments if arguments.strip() else "{}")

    def _find(self, fragment: dict[str, Any], *, opens: bool) -> _Call:
        call_id = fragment.get("id")
        index = fragment.get("index")
        slot = index if isinstance(index, int) else None
        if isinstance(call_id, str) and call_id:
            call = self._by_id.get(call_id)
            if call is None:
                call = self._open(call_id)
            elif opens and slot is not None and self._by_index.get(slot) is not call and call.complete():
                # Results are matched to calls by id, so the second one needs an id of its own.
                call = self._open(f"call_{uuid.uuid4().hex[:16]}")
        elif slot is not None and slot in self._by_index:
            call = self._by_index[slot]
        elif self._calls and not (opens and (slot is not None or self._calls[-1].complete())):
            call = self._calls[-1]
        else:
            call = self._open(f"call_{uuid.uuid4().hex[:16]}")
        if slot is not None:
            self._by_index[slot] = call
        return call

    def _open(self, call_id: str) -> _Call:
        call = _Call(call_id)
        self._calls.append(call)
        self._by_id[call_id] = call
        return call
