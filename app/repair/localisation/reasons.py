"""Why a place is suspicious, in words."""

from __future__ import annotations

from .features import Evidence
from .items import Item

_MOST_TRACES = 2


def reasons_for(item: Item, evidence: Evidence) -> tuple[str, ...]:
    """Strongest first; what was counted comes last."""
    values = item.values
    found: list[str] = []
    for test, exception, steps in item.frames[:_MOST_TRACES]:
        how = f"{exception or 'the failure'} was raised here" if not steps else "on the way to the failure"
        found.append(f"{how} in {test}")
    place = (item.path, item.statement.function)
    name = item.statement.function.rpartition(".")[2]
    caller = evidence.callers.get(place)
    if caller:
        found.append(f"{name} is called by the failing line of {_short(caller)}")
    elif 0 < evidence.far.get(place, 0) <= 3:
        steps = evidence.far[place]
        found.append(f"{steps} call{'s' if steps > 1 else ''} away from the failing test's own calls")
    if values.get("title", 0.0) >= 0.5:
        found.append("the failing test is named after it")
    if values.get("should_raise", 0.0) > 0:
        found.append("the test waited for an exception that is raised or prevented here")
    if values.get("guards_raise", 0.0) > 0:
        found.append("it decides whether the line that raised is run")
    elif values.get("feeds_raise", 0.0) > 0 and not values.get("raised_here", 0.0):
        found.append("it defines a name used by the line that raised")
    if values.get("branch", 0.0) >= 0.1:
        found.append("one outcome of its condition goes with failure")
    if values.get("odd_constant", 0.0) > 0:
        found.append("a constant of it shows in one of the compared values only")
    if values.get("gives_none", 0.0) > 0:
        found.append("it gives None, which one of the compared values was")
    if values.get("gave_nothing", 0.0) > 0:
        found.append("it gave no value, and a None shows in the failure")
    if values.get("stuck_loop", 0.0) > 0:
        found.append("it is part of a loop, and a failing test did not end")
    if values.get("slice", 0.0) >= 0.5:
        found.append("the wrong value was made from it")
    if values.get("recent", 0.0) >= 0.5:
        found.append("changed lately")
    if item.tests:
        counts = evidence.spectrum.counts(item.tests)
        found.append(f"run by {counts.failing} failing and {counts.passing} passing tests")
    return tuple(dict.fromkeys(found))


def _short(test: str) -> str:
    """The test's own name: with its file and class in front a line on a terminal is full."""
    head, bracket, parameters = test.partition("[")
    return (head.rpartition("::")[2].rpartition(".")[2] or head) + bracket + parameters
