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
import opcode
import random
import re
import signal
import sys
import time
import types
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from .fingerprints import fingerprint, is_big, short

_ITEMS = 200
_CALL_S = 0.2
_PER_FUNCTION = 40
_NEIGHBOURS = 8
_REPEAT_S = 3.0
"""For one call of a test with all its neighbours in all versions."""
_TOKEN = re.compile(r"\w+|[^\w\s]+|\s+")
_SIGN, _WORD = re.compile(r"[^\w\s]"), re.compile(r"\w")
_PLAIN = (int, float, complex, str, bytes, bool, type(None))


class CallTooLong(BaseException):
    """A repeated call took longer than its limit. Not an ``Exception``: code under test must not catch it."""


class ReachesOut(BaseException):
    """A repeated call was about to do something outside of the process."""


class _Alarm:
    """Raises CallTooLong in the code inside the ``with`` block; again and again, should it be caught."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._old: Any = None

    def __enter__(self) -> None:
        self._old = signal.signal(signal.SIGALRM, self._ring)
        _Alarm.current = self
        signal.setitimer(signal.ITIMER_REAL, self._seconds, 0.02)

    def __exit__(self, *_: Any) -> None:
        _Alarm.quiet()
        signal.signal(signal.SIGALRM, self._old if self._old is not None else signal.SIG_DFL)

    def _ring(self, _signal: int, _frame: Any) -> None:
        if _Alarm.current is self:
            raise CallTooLong()

    current: Any = None

    @staticmethod
    def quiet() -> None:
        _Alarm.current = None
        signal.setitimer(signal.ITIMER_REAL, 0)


class Version:
    """Functions and the code each gets; the first version is the program as it is."""

    def __init__(self, codes: List[Tuple[Any, Any]]) -> None:
        self._codes = codes
        self._old = [(function, function.__code__) for function, _code in codes]

    def __enter__(self) -> None:
        for function, code in self._codes:
            function.__code__ = code

    def __exit__(self, *_: Any) -> None:
        for function, code in self._old:
            function.__code__ = code


class Probe:
    """Repeats the calls that tests make.

    Args:
        versions: what to compare.
        is_project: whether a file is the repository's and no test.
        send: gets ``[call, neighbour, [[fingerprint, shown], ...per version]]`` for every call.
        most: calls reported at most.
        seed: for the choice of neighbours.
        watch: keeps repeated calls inside the process.
    """

    def __init__(
        self,
        versions: List[Version],
        is_project: Callable[[str], bool],
        send: Callable[[Any], None],
        most: int,
        seed: int,
        watch: Any,
    ) -> None:
        self._watch = watch
        self._until = 0.0
        # Tests replace the clock.
        self._now: Callable[[], float] = time.monotonic
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
        if self._counts.get(code, 0) >= _PER_FUNCTION or _goes_on(frame):
            return
        self._counts[code] = self._counts.get(code, 0) + 1
        self._watch.forbid = ReachesOut
        try:
            function = _function_of(frame)
            if function is not None:
                self._repeat(function, code, frame)
        except BaseException:  # noqa: BLE001  copying or looking at foreign objects may raise anything: no input
            return
        finally:
            _Alarm.quiet()
            self._watch.forbid = None

    def _repeat(self, function: Any, code: Any, frame: Any) -> None:
        self._until = self._now() + _REPEAT_S
        arguments, starred, named = _arguments(code, frame.f_locals)
        with _Alarm(_CALL_S):
            if is_big([arguments, starred, named]):
                return
            arguments, starred, named = copy.deepcopy((arguments, starred, named))
        self._run(function, arguments, starred, named, False)
        for position, name in enumerate(list(arguments)):
            if position == 0 and name in ("self", "cls"):
                continue
            pool = self._values.setdefault((code, name), [])
            with _Alarm(_CALL_S):
                changed = neighbours(arguments[name], self._random, pool)
            if isinstance(arguments[name], _PLAIN) and len(pool) < 20:
                pool.append(arguments[name])
            for value in changed[:_NEIGHBOURS]:
                if self._now() > self._until:
                    return
                other = dict(arguments)
                other[name] = value
                self._run(function, other, starred, named, True)

    def _run(self, function: Any, arguments: Any, starred: Any, named: Any, neighbour: bool) -> None:
        with _Alarm(_CALL_S):
            shown = _call_text(function, arguments)
            key = "%s %s" % (shown, fingerprint([arguments, starred, named]))
        if key in self._seen or self._left <= 0:
            return
        self._seen.add(key)
        self._left -= 1
        results: List[List[str]] = []
        state = random.getstate()
        try:
            for version in self._versions:
                with _Alarm(_CALL_S):
                    mine, more, words = copy.deepcopy((arguments, starred, named))
                random.setstate(state)
                with version:
                    results.append(_outcome(function, mine, more, words))
        except ReachesOut:
            return
        finally:
            random.setstate(state)
        self._send([shown, neighbour, results])


def _outcome(function: Any, arguments: Dict[str, Any], starred: Any, named: Dict[str, Any]) -> List[str]:
    """``[fingerprint, shown]`` of one call.

    Raises:
        ReachesOut: from the call.
    """
    shown, print_of = "(takes too long)", "long"
    try:
        with _Alarm(_CALL_S):
            try:
                result = function(*arguments.values(), *starred, **named)
                if type(result) is types.GeneratorType or hasattr(type(result), "__next__"):
                    result = list(itertools.islice(result, _ITEMS))
                text = short(result)
                shown, print_of = text, fingerprint(["returned", result, arguments, starred, named])
            except (CallTooLong, ReachesOut):
                raise
            except BaseException as error:  # noqa: BLE001  whatever the code raises is its behaviour
                text = "raises %s" % type(error).__name__
                shown, print_of = text, fingerprint(["raised", type(error).__name__])
    except CallTooLong:
        shown, print_of = "(takes too long)", "long"
    return [hashlib.sha256(print_of.encode("utf-8", "replace")).hexdigest()[:16], shown]


def _goes_on(frame: Any) -> bool:
    """Whether a generator goes on from a ``yield``: its variables are no arguments any more."""
    code = frame.f_code
    if not code.co_flags & inspect.CO_GENERATOR or frame.f_lasti < 0:
        return False
    name = opcode.opname[code.co_code[frame.f_lasti]]
    # From 3.11 on RESUME is where a frame begins (0) and where it goes on (anything else).
    return name != "RESUME" or bool(code.co_code[frame.f_lasti + 1] & 3)


def _function_of(frame: Any) -> Optional[Any]:
    """The function object that runs in a frame: a global, or an attribute of the first argument's class."""
    code = frame.f_code
    found = frame.f_globals.get(code.co_name)
    # Not getattr: a proxy would go and look for what it stands for.
    found = vars(found).get("__wrapped__", found) if type(found) is types.FunctionType else _inner(found)
    if isinstance(found, types.FunctionType) and found.__code__ is code:
        return found
    if code.co_argcount:
        first = frame.f_locals.get(code.co_varnames[0])
        for kind in (type(first), first):
            for base in type.mro(kind) if isinstance(kind, type) else ():
                member = vars(base).get(code.co_name)
                member = getattr(member, "__func__", getattr(member, "fget", member))
                if isinstance(member, types.FunctionType) and member.__code__ is code:
                    return member
    return None


def _inner(found: Any) -> Any:
    held = inspect.getattr_static(found, "__dict__", None)
    return (
        held.get("__wrapped__", found)
        if isinstance(held, dict)
        else inspect.getattr_static(found, "__wrapped__", found)
    )


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
        found = ["", value[:-1], *_recombined(value, source, pool)]
        found += [value + value[-1:], value.upper(), value.swapcase(), " " + value]
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


def _recombined(value: str, source: random.Random, pool: List[Any]) -> List[str]:
    """A text with one sign, and one word, exchanged for what other texts at its place have."""
    others = [token for each in pool if isinstance(each, str) for token in _TOKEN.findall(each)]
    tokens = _TOKEN.findall(value)
    made: List[str] = []
    for kind in (_SIGN, _WORD):
        here = [at for at, token in enumerate(tokens) if kind.match(token)]
        known = sorted({token for token in others + tokens if kind.match(token)})
        if here and len(known) > 1:
            at = here[source.randrange(len(here))]
            new = known[source.randrange(len(known))]
            made.append("".join([*tokens[:at], new, *tokens[at + 1 :]]))
    return [each for each in made if each != value]


def _call_text(function: Any, arguments: Dict[str, Any]) -> str:
    shown = ", ".join(short(value) for name, value in arguments.items() if name not in ("self", "cls"))
    return "%s(%s)" % (function.__qualname__, shown if len(shown) <= 160 else shown[:157] + "...")
