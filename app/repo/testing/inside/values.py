"""Which values variables and expressions have while the tests run, at places the host asks for.

The files that hold such places are compiled from an instrumented syntax tree: calls to a
probe stand before a statement, around an expression, or at the ends of a function. Nothing
else of the program is slowed down, no trace function is needed, and nothing on disk changes.

A probe calls no code of the project: only objects of exactly the built-in types are looked
into, attributes are read from instance dictionaries and slots, everything else is named by
its type. Hits, names, attributes, items and bytes are bounded.

A place is a dictionary with ``path``, ``kind``, ``line``, ``column``, ``end_line`` and
``end_column`` as ``ast`` counts them. Kinds: ``line`` (the scope before the statement on the
line), ``value`` (the scope before an expression, and the expression's value) and ``call``
(the arguments of the function defined on the line, and what it returns).
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from .describing import UNSEEN, Table
from .instrument import ENTERED, RETURNED, SCOPE, SEEN, instrument
from .stream import Places

MOST_HITS = 16
"""Snapshots per place and test; further hits are only counted."""
MOST_BYTES = 24 << 20
"""Of text kept in one process, roughly; beyond it hits are only counted."""
MOST_NAMES = 40
MOST_GLOBALS = 24

_INNER = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>")
_frame: Callable[[int], Any] = sys._getframe  # pyright: ignore[reportPrivateUsage]


class Observer:
    """Instruments files, and holds what their probes saw since the last ``take``."""

    def __init__(self, places: Places, wanted: List[Dict[str, Any]]) -> None:
        self._places = places
        self._wanted: Dict[str, List[Tuple[int, Dict[str, Any]]]] = {}
        for index, place in enumerate(wanted):
            self._wanted.setdefault(str(place["path"]), []).append((index, place))
        self._table = Table()
        self._spots: Dict[int, Dict[str, Any]] = {}
        self._entered: Dict[Tuple[int, int], Dict[str, Any]] = {}
        self._bytes = 0
        self._original: Any = None
        self.note = ""

    def start(self) -> None:
        """Before any file of the project is imported."""
        for name, function in (
            (SCOPE, self._scope),
            (SEEN, self._seen),
            (ENTERED, self._enter),
            (RETURNED, self._return),
        ):
            setattr(builtins, name, function)
        loader: Any = importlib.machinery.SourceFileLoader
        original = self._original = loader.source_to_code
        observer = self

        def source_to_code(self: Any, data: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
            tree = observer.instrumented(data, path)
            if tree is None:
                return original(self, data, path, *args, **kwargs)
            return compile(tree, path, "exec", dont_inherit=True)

        loader.source_to_code = source_to_code

    def stop(self) -> None:
        """Files imported from here on are left alone; probes go on to exist."""
        if self._original is not None:
            loader: Any = importlib.machinery.SourceFileLoader
            loader.source_to_code = self._original

    def instrumented(self, data: Any, path: Any) -> Optional[ast.Module]:
        """The file's tree with probes, or None when nothing in it was asked for."""
        relative = self._places.relative(str(path))
        wanted = self._wanted.get(relative or "")
        if not wanted or not isinstance(data, (bytes, str)):
            return None
        try:
            return instrument(ast.parse(data, filename=str(path)), wanted)
        except (SyntaxError, ValueError, RecursionError):
            return None  # the plain loader says what is wrong with the file

    def take(self) -> Optional[Dict[str, Any]]:
        """``table`` and ``spots`` (place number -> hits, seen) since the last call; forgets them."""
        if not self._spots:
            return None
        taken = {"table": self._table.rows, "spots": {str(key): spot for key, spot in self._spots.items()}}
        self._bytes += self._table.bytes
        self._table, self._spots, self._entered = Table(), {}, {}
        return taken

    # -- probes ----------------------------------------------------------------------

    def _hit(self, index: int) -> Optional[Dict[str, Any]]:
        """A new snapshot at a place, or None when it is only counted."""
        spot = self._spots.get(index)
        if spot is None:
            spot = self._spots[index] = {"hits": 0, "seen": []}
        spot["hits"] += 1
        if len(spot["seen"]) >= MOST_HITS:
            return None
        if self._bytes + self._table.bytes > MOST_BYTES:
            self.note = "more values than fit were seen; later ones were only counted"
            return None
        snapshot: Dict[str, Any] = {}
        spot["seen"].append(snapshot)
        return snapshot

    def _scope(self, index: int) -> Optional[Dict[str, Any]]:
        snapshot = self._hit(index)
        if snapshot is not None:
            self._fill(snapshot, _frame(1))
        return snapshot

    def _seen(self, snapshot: Optional[Dict[str, Any]], value: Any) -> Any:
        if snapshot is not None:
            snapshot["r"] = self._table.add(value, True)
        return value

    def _enter(self, index: int) -> None:
        frame = _frame(1)
        snapshot = self._hit(index)
        if snapshot is not None:
            self._fill(snapshot, frame)
            self._entered[index, id(frame)] = snapshot
        else:
            # The number of an earlier frame that left by an exception may be used again.
            self._entered.pop((index, id(frame)), None)

    def _return(self, index: int, value: Any) -> Any:
        snapshot = self._entered.pop((index, id(_frame(1))), None)
        if snapshot is not None:
            snapshot["r"] = self._table.add(value, True)
        return value

    def _fill(self, snapshot: Dict[str, Any], frame: Any) -> None:
        """Names of the scope: ``s`` locals, ``g`` plain values at module level."""
        found: Dict[str, Any] = dict(frame.f_locals)
        while frame.f_code.co_name in _INNER and frame.f_back is not None:
            # A comprehension before 3.12 is a function of its own, called by the one it stands in.
            if not any(each is frame.f_code for each in frame.f_back.f_code.co_consts):
                break
            frame = frame.f_back
            for name, value in list(frame.f_locals.items()):
                found.setdefault(name, value)
        add = self._table.add
        local: Dict[str, int] = {}
        at_module_level = frame.f_locals is frame.f_globals
        for name, value in found.items():
            if len(local) >= MOST_NAMES:
                break
            if name.startswith(("__", ".")) or issubclass(type(value), UNSEEN):
                continue
            local[name] = add(value, True)
        snapshot["s"] = local
        if at_module_level:
            return
        outer: Dict[str, int] = {}
        for name, value in list(frame.f_globals.items()):
            if len(outer) >= MOST_GLOBALS:
                break
            plain = type(value) in (int, float, str, bytes, bool, tuple, list, dict, set, frozenset)
            if plain and not name.startswith(("__", "@")) and name not in local:
                outer[name] = add(value, False)
        snapshot["g"] = outer


def make_observer(places: Places, wanted: Any) -> Optional[Observer]:
    """None when nothing is to be observed."""
    return Observer(places, wanted) if wanted else None
