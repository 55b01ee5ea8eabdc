"""How several versions of a program behave on the same calls.

While tests run on the program as it is, each call that a test makes into the repository is
repeated on copies of its arguments with every version's code in place, and so are calls with
neighbouring arguments (one value changed a little). What each version returned, raised and did
to the arguments is reduced to a fingerprint; equal fingerprints mean equal behaviour on that call.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import itertools
import random
import signal
import sys
import types
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

_DEPTH = 6
_ITEMS = 200
_TEXT = 60
_CALL_S = 0.2
_PER_FUNCTION = 40
_NEIGHBOURS = 6
_COPY_BYTES = 200000
_PLAIN = (int, float, complex, str, bytes, bool, type(None))


class CallTooLong(BaseException):
    """A repeated call took longer than its limit. Not an ``Exception``: code under test must not catch it."""


class Version:
    """Functions and the code they get; the first version is the program as it is."""

    def __init__(self, functions: List[Any], code: Any) -> None:
        self._functions = functions
        self._code = code
        self._old = [function.__code__ for function in functions]

    def __enter__(self) -> None:
        for function in self._functions:
            function.__code__ = self._code

    def __exit__(self, *_: Any) -> None:
        for position, function in enumerate(self._functions):
            function.__code__ = self._old[position]


class Probe:
    """Repeats the calls that tests make.

    Args:
        versions: what to compare.
        is_project: whether a file is the repository's and no test.
        send: gets ``[call, neighbour, [[fingerprint, shown], ...per version]]`` for every call.
        most: calls reported at most.
        seed: for the choice of neighbours.
    """

    def __init__(
        self,
        versions: List[Version],
        is_project: Callable[[str], bool],
        send: Callable[[Any], None],
        most: int,
        seed: int,
    ) -> None:
        self._versions = versions
        self._is_project = is_project
        self._send = send
        self._left = most
        self._random = random.Random(seed)
        self._counts: Dict[Any, int] = {}
        self._seen: Set[str] = set()
        self._values: Dict[Tuple[Any, str], List[Any]] = {}

    def start(self) -> None:
        sys.setprofile(self._on_event)

    def stop(self) -> None:
        sys.setprofile(None)

    def _on_event(self, frame: Any, event: str, _argument: Any) -> None:
        if event != "call" or self._left <= 0:
            return
        code = frame.f_code
        back = frame.f_back
        if (
            back is None
            or not self._is_project(code.co_filename)
            or self._is_project(back.f_code.co_filename)
        ):
            return
        if code.co_name.startswith("<") or code.co_flags & (
            inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
        ):
            return
        if self._counts.get(code, 0) >= _PER_FUNCTION:
            return
        function = _function_of(frame)
        if function is None:
            return
        self._counts[code] = self._counts.get(code, 0) + 1
        try:
            self._repeat(function, code, frame)
        except Exception:  # noqa: BLE001  copying or comparing foreign objects may raise anything: no input
            return

    def _repeat(self, function: Any, code: Any, frame: Any) -> None:
        arguments, starred, named = _arguments(code, frame.f_locals)
        size = len(fingerprint([arguments, starred, named]))
        if size > _COPY_BYTES:
            return
        arguments, starred, named = copy.deepcopy((arguments, starred, named))
        self._run(function, arguments, starred, named, False)
        for position, name in enumerate(list(arguments)):
            if position == 0 and name in ("self", "cls"):
                continue
            pool = self._values.setdefault((code, name), [])
            changed = neighbours(arguments[name], self._random, pool)
            if isinstance(arguments[name], _PLAIN) and len(pool) < 20:
                pool.append(arguments[name])
            for value in changed[:_NEIGHBOURS]:
                other = dict(arguments)
                other[name] = value
                self._run(function, other, starred, named, True)

    def _run(self, function: Any, arguments: Any, starred: Any, named: Any, neighbour: bool) -> None:
        shown = _call_text(function, arguments)
        key = "%s %s" % (shown, fingerprint([arguments, starred, named]))
        if key in self._seen or self._left <= 0:
            return
        self._seen.add(key)
        self._left -= 1
        results: List[List[str]] = []
        for version in self._versions:
            mine, more, words = copy.deepcopy((arguments, starred, named))
            state = random.getstate()
            with version:
                results.append(_outcome(function, mine, more, words))
            random.setstate(state)
        self._send([shown, neighbour, results])


def _outcome(function: Any, arguments: Dict[str, Any], starred: Any, named: Dict[str, Any]) -> List[str]:
    """``[fingerprint, shown]`` of one call."""
    old = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, _CALL_S)
    try:
        result = function(*arguments.values(), *starred, **named)
        if isinstance(result, types.GeneratorType) or hasattr(result, "__next__"):
            result = list(itertools.islice(result, _ITEMS))
        signal.setitimer(signal.ITIMER_REAL, 0)
        shown = _short(result)
        print_of = fingerprint(["returned", result, arguments, starred, named])
    except CallTooLong:
        shown, print_of = "(takes too long)", "long"
    except BaseException as error:  # noqa: BLE001  whatever the code raises is its behaviour
        signal.setitimer(signal.ITIMER_REAL, 0)
        shown = "raises %s" % type(error).__name__
        print_of = fingerprint(["raised", type(error).__name__])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old if old is not None else signal.SIG_DFL)
    return [hashlib.sha256(print_of.encode("utf-8", "replace")).hexdigest()[:16], shown]


def _ring(_signal: int, _frame: Any) -> None:
    raise CallTooLong()


def _function_of(frame: Any) -> Optional[Any]:
    """The function object that runs in a frame: a global, or an attribute of the first argument's class."""
    code = frame.f_code
    found = frame.f_globals.get(code.co_name)
    found = getattr(found, "__wrapped__", found)
    if isinstance(found, types.FunctionType) and found.__code__ is code:
        return found
    if code.co_argcount:
        first = frame.f_locals.get(code.co_varnames[0])
        for kind in (type(first), first):
            for base in getattr(kind, "__mro__", ()):
                member = vars(base).get(code.co_name)
                member = getattr(member, "__func__", getattr(member, "fget", member))
                if isinstance(member, types.FunctionType) and member.__code__ is code:
                    return member
    return None


def _arguments(code: Any, values: Dict[str, Any]) -> Tuple[Dict[str, Any], Tuple[Any, ...], Dict[str, Any]]:
    names = code.co_varnames
    count, keywords = code.co_argcount, code.co_kwonlyargcount
    plain = {name: values[name] for name in names[:count]}
    named = {name: values[name] for name in names[count : count + keywords]}
    following = count + keywords
    starred: Tuple[Any, ...] = ()
    if code.co_flags & inspect.CO_VARARGS:
        starred = values[names[following]]
        following += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        named.update(values[names[following]])
    return plain, starred, named


def neighbours(value: Any, source: random.Random, pool: List[Any]) -> List[Any]:
    """Values close to one, and some seen at the same place; likelier interesting ones first."""
    found: List[Any] = []
    if isinstance(value, bool):
        found = [not value]
    elif isinstance(value, int):
        found = [value + 1, value - 1, 0, -value, value * 2]
    elif isinstance(value, float):
        found = [value + 0.5, 0.0, -value, value * 2]
    elif isinstance(value, str):
        found = ["", value[:-1], value + value[-1:], value.upper(), value.swapcase(), " " + value]
    elif isinstance(value, (list, tuple)):
        items: List[Any] = list(value)
        shapes = [[], items[:-1], items[1:], [*items, *items[-1:]], items[::-1]]
        if items:
            at = source.randrange(len(items))
            for other in neighbours(items[at], source, [])[:2]:
                shapes.append([*items[:at], other, *items[at + 1 :]])
        kind = type(value)
        found = [shape if kind is list else tuple(shape) for shape in shapes] if kind in (list, tuple) else []
    elif type(value) is dict:
        keys = list(value)
        found = [{}]
        if keys:
            at = keys[source.randrange(len(keys))]
            found.append({key: value[key] for key in keys if key != at})
            for other in neighbours(value[at], source, [])[:2]:
                found.append({**value, at: other})
    elif type(value) is set:
        found = [set()]
        if value:
            ordered = sorted(value, key=repr)
            found.append(set(ordered[1:]))
    found.extend(each for each in pool[-3:] if type(each) is type(value) and each != value)
    return found


def fingerprint(value: Any, depth: int = 0, inside: Tuple[int, ...] = ()) -> str:
    """A text that is equal for equal values and holds no addresses; bounded."""
    kind = type(value)
    if kind in _PLAIN:
        return "%s:%r" % (kind.__name__, value)
    if depth > _DEPTH or id(value) in inside:
        return "..."
    inside = (*inside, id(value))

    def each(values: Any) -> str:
        return ",".join(fingerprint(one, depth + 1, inside) for one in itertools.islice(values, _ITEMS))

    if isinstance(value, (list, tuple)):
        return "%s[%d:%s]" % (kind.__name__, len(value), each(value))
    if isinstance(value, (set, frozenset)):
        return "%s{%s}" % (kind.__name__, ",".join(sorted(fingerprint(v, depth + 1, inside) for v in value)))
    if isinstance(value, dict):
        pairs = (
            "%s=%s" % (fingerprint(key, depth + 1, inside), fingerprint(held, depth + 1, inside))
            for key, held in itertools.islice(value.items(), _ITEMS)
        )
        return "%s{%s}" % (kind.__name__, ",".join(pairs))
    if isinstance(value, (type, types.FunctionType, types.ModuleType, types.BuiltinFunctionType)):
        return "%s:%s" % (kind.__name__, getattr(value, "__qualname__", getattr(value, "__name__", "")))
    state = _state(value)
    if state is None:
        return "%s:%s" % (kind.__qualname__, _without_address(value))
    return "%s(%s)" % (kind.__qualname__, fingerprint(state, depth + 1, inside))


def _state(value: Any) -> Optional[Dict[str, Any]]:
    held = getattr(value, "__dict__", None)
    if isinstance(held, dict):
        return dict(held)
    names = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
    if not names:
        return None
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _without_address(value: Any) -> str:
    """The text of a value of a C type, unless it only names an address."""
    if type(value).__repr__ is object.__repr__:
        return ""
    text = repr(value)[:2000]
    return "" if " at 0x" in text else text


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  the project's own __repr__ may raise anything
        text = type(value).__name__
    return text if len(text) <= _TEXT else text[: _TEXT - 3] + "..."


def _call_text(function: Any, arguments: Dict[str, Any]) -> str:
    shown = ", ".join(_short(value) for name, value in arguments.items() if name not in ("self", "cls"))
    return "%s(%s)" % (function.__qualname__, shown if len(shown) <= 160 else shown[:157] + "...")
