"""Reports of real and of hostile results, checked against the public schemas and by other readers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import jsonschema
import pytest
import xmlschema
from markdown_it import MarkdownIt
from whimbrel.app.reports import FORMATS, render
from whimbrel.app.reports.github import SUMMARY_BYTES, annotation_lines, append_output, append_summary
from whimbrel.app.reports.markdown import markdown_report
from whimbrel.app.reports.patches import parse_patch
from whimbrel.app.reports.safe import code, fence, prose
from whimbrel.app.reports.sarif import MAX_BYTES, MAX_RESULTS
from whimbrel.app.reports.swebench import prediction_line
from whimbrel.app.reports.writing import load_result
from whimbrel.sandbox.base.errors import RepositoryError, UsageError

SCHEMAS = Path(__file__).parent / "schemas"
SARIF = jsonschema.Draft4Validator(json.loads((SCHEMAS / "sarif-2.1.0-rtm.5.json").read_text()))
JUNIT = xmlschema.XMLSchema(str(SCHEMAS / "junit-10.xsd"))

EVIL = (
    "]]></failure><x a='\"&amp;\x00\x08\x1b[31m\ud800\ufffe\n::set-output name=x::y\r\n::error::boo\n"
    "```\n</details><script>alert(1)</script> @torvalds closes #1, GH-2 https://github.com/a/b/issues/3 "
    "[link](javascript:x) | ![i](http://x) `` ` %0A \u202e\u2028 # head\n- item\n1. one"
)
PATCH = """\
diff --git a/src/odd name.py b/src/odd name.py
index 1111111..2222222 100644
--- a/src/odd name.py\t
+++ b/src/odd name.py\t
@@ -1,5 +1,6 @@ def f():
 one
-two
-three
+TWO
 four
+inserted
+-- a/not a header
 five
@@ -20 +20,0 @@
-gone
\\ No newline at end of file
diff --git "a/t\\303\\251\\"st.py" "b/t\\303\\251\\"st.py"
new file mode 100644
--- /dev/null
+++ "b/t\\303\\251\\"st.py"
@@ -0,0 +1 @@
+new
"""


def made(**changes: Any) -> dict[str, Any]:
    """A result as a run writes it; hostile text wherever text can come from outside."""
    result: dict[str, Any] = {
        "schema_version": 1, "version": "0.1.0", "status": "not_fixed", "exit_code": 4, "message": EVIL,
        "hint": EVIL, "repository": "/nowhere/project", "base_commit": "a" * 40, "base_tree": "b" * 40,
        "patch": "", "explanation": EVIL, "model": "openai:some/model x", "notes": [EVIL],
        "started_at": "2026-01-02T03:04:05Z", "output": "/nowhere/out",
        "target_tests": ["tests/test_a.py::T::test_x[a::b]", f"tests/{EVIL}.py::test_y", "pkg.T.test_z"],
        "flaky_tests": ["f"], "sandbox": {"kind": "bwrap", "isolated": True},
        "located": [{"path": "src/a, b:c%.py", "line": 3, "end_line": 4, "function": EVIL, "reasons": [EVIL]}],
        "tests_before": {"command": EVIL, "summary": "1 failed", "ledger_rows": [1, 2], "duration_s": 1234.5},
        "tests_after": {},
        "evidence": [
            {"number": 1, "log_path": "logs/1.log", "outcomes": {
                "tests/test_a.py::T::test_x[a::b]": "failed", "pkg.T.test_z": "error", "c": "crashed",
                "t": "timeout", "s": "skipped", "x": "xfailed", "p": "passed", "f": "failed", EVIL: "failed"}},
            {"number": 2, "log_path": "../../etc/passwd", "outcomes": {"p": "passed"}},
        ],
    }  # fmt: skip
    return result | changes


def fixed(**changes: Any) -> dict[str, Any]:
    return made() | {"status": "fixed", "exit_code": 0, "patch": PATCH} | changes


@pytest.mark.parametrize(
    "result", [made(), fixed(), {"schema_version": 1, "status": "running"}], ids=["bad", "fixed", "bare"]
)
def test_sarif_is_valid_and_its_places_are_relative(result: dict[str, Any], tmp_path: Path) -> None:
    log = json.loads(render("sarif", result, folder=tmp_path))
    assert [error.message for error in SARIF.iter_errors(log)] == []
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for each in run["results"]:
        assert rules[each["ruleIndex"]] == each["ruleId"] and each["partialFingerprints"]
        for location in each.get("locations", []):
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert not uri.startswith("/") and ":" not in uri and " " not in uri
    if result["status"] == "fixed":
        (fix,) = run["results"][0]["fixes"]
        uri = fix["artifactChanges"][0]["artifactLocation"]["uri"]
        assert unquote(uri) == "src/odd name.py"
        region = fix["artifactChanges"][0]["replacements"][0]["deletedRegion"]
        assert region == {"startLine": 2, "startColumn": 1, "endLine": 4, "endColumn": 1}
    again = json.loads(render("sarif", result | {"message": "other words"}, folder=tmp_path))
    prints = [[each["partialFingerprints"] for each in one["runs"][0]["results"]] for one in (log, again)]
    assert prints[0] == prints[1]


def test_sarif_stays_within_what_services_take(tmp_path: Path) -> None:
    many = made(target_tests=[f"tests/test_{n}.py::test" for n in range(MAX_RESULTS + 7)])
    log = json.loads(render("sarif", many, folder=tmp_path))
    assert len(log["runs"][0]["results"]) == MAX_RESULTS and "8 more results" in json.dumps(log)
    hunk = "@@ -1 +1 @@\n-a\n+" + "x" * 11_000_000 + "\n"
    huge = render("sarif", fixed(patch=f"diff --git a/f b/f\n--- a/f\n+++ b/f\n{hunk}"), folder=tmp_path)
    assert len(huge) <= MAX_BYTES and len(json.loads(huge)["runs"][0]["results"]) == 1


@pytest.mark.parametrize(
    "result",
    [made(), fixed(tests_after={"ledger_rows": [2]}), made(tests_before={})],
    ids=["bad", "fixed", "none"],
)
def test_junit_is_valid_and_counts_right(result: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/1.log").write_bytes(b"\x00\x1b[1mlog \xff]]>\n")
    data = render("junit", result, folder=tmp_path)
    JUNIT.validate(data.decode())
    root = ElementTree.fromstring(data)
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases)
        for kind in ("failure", "error", "skipped"):
            total = suite.get({"failure": "failures", "error": "errors"}.get(kind, kind), "")
            assert int(total) == sum(case.find(kind) is not None for case in cases)
    if result["tests_before"]:
        before = root[0]
        assert before.findtext("system-out") == "log \ufffd]]>\n" and "passwd" not in data.decode()
        names = [(case.get("classname"), case.get("name")) for case in before.findall("testcase")]
        assert names[0] == ("tests.test_a.T", "test_x[a::b]") and names[1] == ("pkg.T", "test_z")


def test_annotations_stay_on_their_lines_and_within_the_limits() -> None:
    lines = annotation_lines(
        made(target_tests=[f"t/test_{n}.py::test_{EVIL}" for n in range(30)], located=made()["located"] * 20)
    )
    kinds = [line.split(" ")[0] for line in lines]
    assert {kind: kinds.count(kind) for kind in kinds} == {"::error": 10, "::warning": 10, "::notice": 1}
    assert not any("\n" in line or "\r" in line for line in lines)
    assert "21 more tests fail" in lines[9]
    warning = next(line for line in lines if line.startswith("::warning"))
    assert "file=src/a%2C b%3Ac%25.py,line=3,endLine=4::" in warning
    assert annotation_lines(fixed())[0].startswith(
        "::notice title=Verified fix,file=src/odd name.py,line=2,endLine=3::"
    )


def test_outputs_and_summaries_cannot_be_broken_out_of(tmp_path: Path) -> None:
    file = tmp_path / "output"
    append_output(file, "message", f"{EVIL}\nmessage<<EOF\nEOF\n")
    append_output(file, "status", "fixed")
    read: dict[str, str] = {}
    lines = file.read_text(encoding="utf-8").split("\n")
    while len(lines) > 1:
        name, _, delimiter = lines.pop(0).partition("<<")
        end = lines.index(delimiter)
        read[name] = "\n".join(lines[:end])
        lines = lines[end + 1 :]
    assert (
        list(read) == ["message", "status"]
        and read["status"] == "fixed"
        and "::error::boo" in read["message"]
    )
    summary = tmp_path / "summary"
    summary.write_text("x" * (SUMMARY_BYTES - 30_000))
    append_summary(summary, fixed(patch=PATCH + "+" + "y" * 2_000_000))
    assert SUMMARY_BYTES - 30_000 < summary.stat().st_size <= SUMMARY_BYTES


def test_markdown_shows_hostile_text_and_does_not_obey_it() -> None:
    text = markdown_report(made(reproduction={"path": "t.py", "text": f"```\n{EVIL}\n````"}))
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    inner = [child for token in tokens for child in token.children or []]
    assert not [each for each in inner if each.type in ("link_open", "image")]
    html = [each.content for each in [*tokens, *inner] if each.type in ("html_block", "html_inline")]
    assert html == ["<sub>", "</sub>"]
    assert [token.tag for token in tokens if token.type == "heading_open"][:1] == ["h2"]
    assert sum(token.type == "fence" for token in tokens) == 1
    shown = "".join(each.content for each in inner if each.type == "text")
    for reference in ("@torvalds", "#1", "GH-2", "://", "\u202e", "\x1b"):
        assert reference not in shown, reference
    assert "torvalds" in shown and "<script>" in shown
    long = markdown_report(fixed(patch=PATCH + "+line\n" * 50_000))
    assert len(long) < 65_536 and "more lines ...]" in long


@pytest.mark.parametrize("text", ["`", "``` x ```", "a`", "", "````\n```", "|x|"])
def test_code_cannot_be_closed_from_inside(text: str) -> None:
    block = fence(text).split("\n")
    assert block[0] == block[-1] and len(block[0]) >= 3
    assert not any(line.strip() == block[0] for line in block[1:-1])
    span = code(text)
    ticks = span[: len(span) - len(span.lstrip("`"))]
    assert span.endswith(ticks) and ticks not in span[len(ticks) : -len(ticks)] and "|" not in span


def test_prose_keeps_plain_words() -> None:
    assert prose("two  words,\nand a third") == "two words, and a third"


def test_patches_are_read_with_every_kind_of_name_and_line() -> None:
    first, second = parse_patch(PATCH)
    assert first.path == first.new_path == "src/odd name.py" and second.path == 'té"st.py' and second.new_file
    spots = [(each.start, each.removed, each.old, each.text) for each in first.replacements]
    assert spots == [
        (2, 2, "two\nthree\n", "TWO\n"),
        (5, 0, "", "inserted\n-- a/not a header\n"),
        (20, 1, "gone", ""),
    ]
    assert [(each.start, each.removed, each.text) for each in second.replacements] == [(1, 0, "new\n")]
    binary = parse_patch("diff --git a/x b/y\nrename from x\nrename to y\nBinary files a/x and b/y differ\n")
    assert (binary[0].path, binary[0].new_path, binary[0].binary) == ("x", "y", True)


def test_predictions_fit_their_commit_or_are_refused(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=T", "-c", "user.email=t@example.invalid"]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "f").write_text("a\n")
    subprocess.run([*git, "add", "f"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    (tmp_path / "f").write_text("not committed\n")
    patch = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/g b/g\nnew file mode 100644\n--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+g"
    result = fixed(repository=str(tmp_path), base_commit=head, patch=patch)
    line = json.loads(prediction_line(result, "project__project-1"))
    assert line == {
        "instance_id": "project__project-1",
        "model_name_or_path": "openai:some/model-x+whimbrel-0.1.0",
        "model_patch": patch + "\n",
    }
    assert json.loads(prediction_line(made(base_commit=head)))["model_patch"] == ""
    with pytest.raises(UsageError, match="does not apply to a clean checkout"):
        prediction_line(result | {"patch": patch.replace("-a", "-other")})
    with pytest.raises(RepositoryError):
        prediction_line(result | {"base_commit": "f" * 40})
    with pytest.raises(UsageError, match="could name the instance"):
        prediction_line({"status": "not_fixed"})


@pytest.mark.parametrize("format", FORMATS)
def test_the_command_writes_every_format(format: str, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(made()))
    command = [sys.executable, "-m", "whimbrel.app.cli", "report", str(tmp_path), "--format", format]
    shown = subprocess.run(command, capture_output=True, check=True).stdout
    subprocess.run([*command, "-o", str(tmp_path / "deep/file")], check=True)
    assert (tmp_path / "deep/file").read_bytes() == shown != b""


@pytest.mark.parametrize("format", list(FORMATS))
def test_a_result_with_fields_of_other_kinds_is_no_internal_error(format: str, tmp_path: Path) -> None:
    whole = fixed()
    odd = {key: "x" if isinstance(value, (dict, list)) else value for key, value in whole.items()}
    (tmp_path / "result.json").write_text(json.dumps(odd), encoding="utf-8")
    command = [sys.executable, "-m", "whimbrel.app.cli", "report", str(tmp_path), "--format", format]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 2) and "internal error" not in done.stderr, done.stderr


def test_what_is_no_result_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no result at"):
        load_result(tmp_path)
    for content in ("{", "[]", "{}"):
        (tmp_path / "result.json").write_text(content)
        with pytest.raises(UsageError):
            load_result(tmp_path / "result.json")
