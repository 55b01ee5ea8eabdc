"""What a program does on generated inputs; run in a process of its own.

    python observe.py PROJECT INPUTS SEED COUNT [WATCH]

Prints JSON: ``{"outcomes": [[...]], "reached": int}``. An outcome is ``["returned", value,
argument afterwards]``, ``["raised", exception type, argument afterwards]`` or ``["timeout"]``, in a
plain form that :func:`same` compares. WATCH, a JSON object of path to lines, counts the inputs that
run one of those lines.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

CALL_LIMIT_S = 1.0
PROCESS_LIMIT_S = 30.0
_MEMORY = 2 << 30
_MOST_TIMEOUTS = 3
_DEEPEST = 12


class _TooLong(BaseException):
    """Not an Exception: a handler in the project must not take it."""


def observe(
    project: Path,
    inputs: str,
    *,
    seed: int = 0,
    count: int = 200,
    watch: Mapping[str, Iterable[int]] | None = None,
) -> dict[str, Any]:
    """Runs the generated inputs on the project in a fresh process; a dead process has no outcomes."""
    with tempfile.TemporaryDirectory(prefix="inputs-") as temporary:
        path = Path(temporary) / "inputs.py"
        path.write_text(inputs, encoding="utf-8")
        argv = [sys.executable, __file__, str(project), str(path), str(seed), str(count)]
        if watch is not None:
            argv.append(json.dumps({name: sorted(lines) for name, lines in watch.items()}))
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                timeout=PROCESS_LIMIT_S,
                env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
                cwd=temporary,
            )
            return json.loads(done.stdout)
        except (subprocess.TimeoutExpired, json.JSONDecodeError):
            return {"outcomes": [], "reached": 0}


def agrees(one: list[Any], other: list[Any]) -> bool:
    """Whether two lists of outcomes are the same; none at all agrees with nothing."""
    return len(one) == len(other) > 0 and all(same(a, b) for a, b in zip(one, other, strict=True))


def same(a: Any, b: Any) -> bool:
    """Equal plain forms, floats up to rounding."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return type(a) is type(b) and a == b


def plain(value: Any, depth: int = 0) -> Any:
    """A JSON form that tells apart what ``==`` tells apart."""
    if value is None or isinstance(value, (int, float)):
        return value
    if depth > _DEEPEST:
        return ["deep"]
    if isinstance(value, str):
        return ["str", value]
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, [plain(each, depth + 1) for each in value]]
    if isinstance(value, Mapping):
        pairs = [[plain(key, depth + 1), plain(item, depth + 1)] for key, item in value.items()]
        return ["mapping", sorted(pairs, key=lambda pair: json.dumps(pair[0]))]
    if isinstance(value, (set, frozenset)):
        return ["set", sorted((plain(each, depth + 1) for each in value), key=json.dumps)]
    name = type(value).__qualname__
    if type(value).__repr__ is object.__repr__ and hasattr(value, "__dict__"):
        return [name, plain(vars(value), depth + 1)]
    return [name, repr(value)]


class _Reached:
    """Counts whether watched lines ran."""

    def __init__(self, project: str, watch: Mapping[str, Iterable[int]]) -> None:
        self._lines = {os.path.join(project, path): frozenset(lines) for path, lines in watch.items()}
        self.hit = False

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        lines = self._lines.get(frame.f_code.co_filename)
        if lines is None:
            return None
        if event == "line" and frame.f_lineno in lines:
            self.hit = True
        return self


def _main() -> None:
    project, path, seed, count = sys.argv[1:5]
    watch = json.loads(sys.argv[5]) if len(sys.argv) > 5 else None
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    sys.path.insert(0, project)
    names: dict[str, Any] = {}
    exec(compile(Path(path).read_text(encoding="utf-8"), "inputs.py", "exec"), names)
    generate = random.Random(int(seed))
    arguments = [names["inputs"](generate) for _ in range(int(count))]
    reached = _Reached(project, watch) if watch is not None else None
    outcomes: list[Any] = []
    hits = timeouts = 0
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        for argument in arguments:
            if timeouts >= _MOST_TIMEOUTS:
                outcomes.append(["timeout"])
                continue
            outcome = _one(names["call"], argument, reached)
            timeouts += outcome == ["timeout"]
            outcomes.append(outcome)
            if reached is not None:
                hits += reached.hit
                reached.hit = False
    print(json.dumps({"outcomes": outcomes, "reached": hits}))


def _one(call: Any, argument: Any, reached: _Reached | None) -> Any:
    def stop(*_: Any) -> None:
        raise _TooLong

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, CALL_LIMIT_S)
    random.seed(0)
    try:
        if reached is not None:
            sys.settrace(reached)
        try:
            outcome = ["returned", plain(call(argument))]
        finally:
            sys.settrace(None)
    except _TooLong:
        return ["timeout"]
    except Exception as error:  # whatever the project raises is an outcome
        outcome = ["raised", type(error).__qualname__]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return [*outcome, plain(argument)]


if __name__ == "__main__":
    _main()
