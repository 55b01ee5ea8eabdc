"""JUnit XML: the tests before and after as two suites."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .safe import one_line, xml_text
from .tests import outcomes_of, split_id

_MAX_LOG_CHARS = 100_000
_BAD = {"failed": "failure", "error": "error", "crashed": "error", "timeout": "error"}
_SKIPPED = ("skipped", "xfailed")
_ROW_LOG = re.compile(r"[\w.-]+(?:/[\w.-]+)*")


def junit_report(result: Mapping[str, Any], folder: Path) -> bytes:
    """``testsuites`` with the suites "before" and "after" (those that ran)."""
    root = ElementTree.Element("testsuites", name="whimbrel")
    for name, key in (("before", "tests_before"), ("after", "tests_after")):
        run: Mapping[str, Any] = result.get(key) or {}
        if run:
            root.append(_suite(name, run, outcomes_of(result, key), result, folder))
    for total in ("tests", "failures", "errors"):
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _suite(
    name: str, run: Mapping[str, Any], outcomes: Mapping[str, str], result: Mapping[str, Any], folder: Path
) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=name)
    targets, flaky = set(result.get("target_tests") or []), set(result.get("flaky_tests") or [])
    properties = ElementTree.SubElement(suite, "properties")
    facts = {
        "command": run.get("command"),
        "status": result.get("status"),
        "base_commit": result.get("base_commit"),
        "tree": result.get("base_tree" if name == "before" else "end_tree"),
        "summary": run.get("summary"),
    }
    for key, value in facts.items():
        if value:
            ElementTree.SubElement(properties, "property", name=key, value=_line(str(value)))
    counts = {"failure": 0, "error": 0, "skipped": 0}
    for test, outcome in outcomes.items():
        owner, own = split_id(test)
        case = ElementTree.SubElement(suite, "testcase", classname=_line(owner), name=_line(own))
        kind = _BAD.get(outcome, "skipped" if outcome in _SKIPPED else "")
        if kind:
            counts[kind] += 1
            remark = (
                " (a target of the repair)"
                if test in targets
                else " (fails only sometimes)"
                if test in flaky
                else ""
            )
            ElementTree.SubElement(case, kind, message=_line(f"{outcome}{remark}"), type=outcome)
    suite.set("tests", str(len(outcomes)))
    suite.set("failures", str(counts["failure"]))
    suite.set("errors", str(counts["error"]))
    suite.set("skipped", str(counts["skipped"]))
    if isinstance(run.get("duration_s"), int | float):
        suite.set("time", f"{float(run['duration_s']):.3f}")
    if result.get("started_at"):
        suite.set("timestamp", _line(str(result["started_at"])).removesuffix("Z"))
    log = _log(run, result, folder)
    if log:
        ElementTree.SubElement(suite, "system-out").text = log
    return suite


def _line(text: str) -> str:
    return xml_text(one_line(text, 2000))


def _log(run: Mapping[str, Any], result: Mapping[str, Any], folder: Path) -> str:
    """The end of what the first process wrote, from the log kept beside the result."""
    rows = {row.get("number"): row for row in result.get("evidence") or []}
    first = next(iter(run.get("ledger_rows") or []), None)
    relative = str((rows.get(first) or {}).get("log_path") or "")
    # The name comes from a file; it must not lead out of the folder.
    if not _ROW_LOG.fullmatch(relative) or ".." in relative.split("/"):
        return ""
    try:
        text = (folder / relative).read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
    return xml_text(text[-_MAX_LOG_CHARS:])
