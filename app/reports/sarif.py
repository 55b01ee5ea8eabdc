"""SARIF 2.1.0: the verified fix with its replacements, or what fails and where the fault may be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ..version import __version__
from .patches import FilePatch, parse_patch
from .safe import one_line
from .tests import path_of

MAX_RESULTS = 5000
"""More than this number code-scanning services leave out of what they show."""
MAX_BYTES = 9_000_000
"""Of one file; services refuse more than ten megabytes."""
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
_FIX, _TEST, _SUSPECT = "whimbrel/verified-fix", "whimbrel/failing-test", "whimbrel/suspect"
_RULES: Sequence[tuple[str, str, str, str]] = (
    (_FIX, "VerifiedFix", "A fault with a verified fix", "error"),
    (_TEST, "FailingTest", "A test that fails", "error"),
    (_SUSPECT, "Suspect", "A place that may hold the fault", "note"),
)


def sarif_report(result: Mapping[str, Any]) -> bytes:
    """One run with as many results as services take."""
    found = _results(result)
    left_out = max(0, len(found) - MAX_RESULTS)
    found = found[:MAX_RESULTS]
    while True:
        text = json.dumps(_log(result, found, left_out), indent=1, ensure_ascii=True)
        if len(text) <= MAX_BYTES or not found:
            return (text + "\n").encode("ascii")
        if any("fixes" in each for each in found):
            # The patch itself is the largest part, and lies in patch.diff too.
            found = [{key: value for key, value in each.items() if key != "fixes"} for each in found]
        else:
            left_out += len(found) - len(found) // 2
            found = found[: len(found) // 2]


def _log(result: Mapping[str, Any], found: list[dict[str, Any]], left_out: int) -> dict[str, Any]:
    notes = [one_line(str(note)) for note in result.get("notes") or []]
    if left_out:
        notes.append(f"{left_out} more results are left out")
    rules = [
        {
            "id": identity,
            "name": name,
            "shortDescription": {"text": short},
            "defaultConfiguration": {"level": level},
        }
        for identity, name, short, level in _RULES
    ]
    invocation: dict[str, Any] = {
        # Whether the tool worked, not whether it found a fix.
        "executionSuccessful": result.get("status") != "internal_error",
        "exitCode": int(result.get("exit_code") or 0),
        "toolExecutionNotifications": [
            {"level": "note", "message": {"text": note or "(empty)"}} for note in notes[:100]
        ],
    }
    if result.get("started_at"):
        invocation["startTimeUtc"] = str(result["started_at"])
    driver = {"name": "Whimbrel", "version": __version__, "semanticVersion": __version__, "rules": rules}
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "automationDetails": {"id": "whimbrel/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The top of the repository"}}},
        "invocations": [invocation],
        "results": found,
    }
    properties = {key: str(result[key]) for key in ("status", "base_commit", "base_tree") if result.get(key)}
    if properties:
        run["properties"] = properties
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _results(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    patch = str(result.get("patch") or "")
    if result.get("status") == "fixed" and patch:
        return _fix(result, parse_patch(patch))
    found: list[dict[str, Any]] = []
    for test in result.get("target_tests") or []:
        text = f"{test} fails: {result.get('message') or 'not fixed'}"
        found.append(_result(_TEST, "error", text, path_of(str(test)), 1, None, str(test)))
    for place in result.get("located") or []:
        reasons = "; ".join(str(reason) for reason in place.get("reasons") or [])
        where = place.get("function") or "the module"
        text = f"The fault may be in {where}: {reasons or 'ranked by the localiser'}"
        line, end = _number(place.get("line")), place.get("end_line")
        anchor = f"{place.get('path')}:{place.get('function')}"
        found.append(
            _result(
                _SUSPECT,
                "note",
                text,
                str(place.get("path") or ""),
                line,
                _number(end) if end else None,
                anchor,
            )
        )
    return [each for each in found if each]


def _fix(result: Mapping[str, Any], files: list[FilePatch]) -> list[dict[str, Any]]:
    """One result for each changed file; the first one carries the whole fix."""
    text = str(result.get("explanation") or result.get("message") or "fixed")
    found: list[dict[str, Any]] = []
    for file in files:
        spot = file.replacements[0] if file.replacements else None
        line = spot.start if spot else 1
        end = line + max(0, spot.removed - 1) if spot else None
        anchor = "".join(each.old or each.text for each in file.replacements) or file.path
        found.append(_result(_FIX, "error", text, file.path, line, end, f"{file.path}\0{anchor}"))
    changes = [
        {
            "artifactLocation": _location(file.path),
            "replacements": [
                {
                    "deletedRegion": {
                        "startLine": each.start,
                        "startColumn": 1,
                        "endLine": each.start + each.removed,
                        "endColumn": 1,
                    },
                    "insertedContent": {"text": _clean(each.text)},
                }
                for each in file.replacements
            ],
        }
        for file in files
        if file.replacements and not file.binary and file.path == file.new_path
    ]
    if found and changes and len(changes) == len(files):
        description = {"text": one_line(text)}
        found[0]["fixes"] = [{"description": description, "artifactChanges": changes}]
    return found


def _result(
    rule: str, level: str, text: str, path: str, line: int, end: int | None, anchor: str
) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": max(1, line)}
    if end is not None and end >= line:
        region["endLine"] = end
    made: dict[str, Any] = {
        "ruleId": rule,
        "ruleIndex": [identity for identity, *_ in _RULES].index(rule),
        "level": level,
        "message": {"text": one_line(text, 4000) or rule},
        "partialFingerprints": {
            "whimbrel/v1": hashlib.sha256(f"{rule}\0{anchor}".encode("utf-8", "replace")).hexdigest()
        },
    }
    if path and not path.startswith("/"):
        made["locations"] = [{"physicalLocation": {"artifactLocation": _location(path), "region": region}}]
    return made


def _location(path: str) -> dict[str, str]:
    # Percent-encoded bytes: also what is no UTF-8 becomes a valid relative reference.
    try:
        data = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = path.encode("utf-8", "replace")
    return {"uri": quote(data, safe="/"), "uriBaseId": _ROOT}


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value >= 1 else 1
