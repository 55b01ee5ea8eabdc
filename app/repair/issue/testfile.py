"""Writes the test module that an issue became."""

from __future__ import annotations

import ast
import hashlib
import posixpath
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...repo.testing.report import TestReport
from .blocks import parse_python
from .checks import Check, Hypothesis
from .snippets import steps_of
from .values import literal

_MAX_NAME = 60
_MAX_QUOTE_LINES = 12
_TAB = "    "
_UNIT_NAMES = {"Eq": "assertEqual", "NotEq": "assertNotEqual", "In": "assertIn", "Is": "assertIs"}


def module_path(issue_text: str, report: TestReport, folder: str) -> str:
    """Where the new module goes: among the project's tests, named as they are named."""
    digest = hashlib.sha256(issue_text.encode("utf-8", "replace")).hexdigest()[:8]
    names = [case.path.rpartition("/")[2] for case in report.cases if case.path.endswith(".py")]
    behind = sum(1 for name in names if re.search(r"_tests?\.py$", name))
    name = f"issue_{digest}_test.py" if names and behind == len(names) else f"test_issue_{digest}.py"
    return posixpath.join(folder, name) if folder else name


def folder_of_tests(report: TestReport, related: Iterable[str], texts: Mapping[str, str]) -> str:
    """The folder of the tests that import what the issue is about; else the one with most tests.

    Args:
        related: dotted names of modules that the snippets import.
        texts: content of the test modules, by path.
    """
    wanted = sorted(set(related))
    near: Counter[str] = Counter()
    everywhere: Counter[str] = Counter()
    for case in report.cases:
        if not case.path.endswith(".py"):
            continue
        folder = posixpath.dirname(case.path)
        everywhere[folder] += 1
        text = texts.get(case.path, "")
        if any(re.search(rf"\b{re.escape(module)}\b", text) for module in wanted):
            near[folder] += 1
    chosen = near or everywhere
    if not chosen:
        return ""
    return min(chosen, key=lambda folder: (-chosen[folder], folder.count("/"), folder))


@dataclass(frozen=True)
class Rendered:
    """A module's text and the name of each test in it, in the order of the hypotheses."""

    text: str
    names: tuple[str, ...]


def render(
    hypotheses: Sequence[Hypothesis],
    *,
    framework: str,
    title: str,
    quote: str,
    imports: Sequence[Sequence[str]],
) -> Rendered:
    """Writes the module.

    Args:
        framework: ``pytest`` or ``unittest``.
        quote: what the issue says, for the reader.
        imports: per test the import lines that its statements need and do not hold themselves.
    """
    unit = framework == "unittest"
    head: dict[str, None] = {}
    bodies: list[str] = []
    names: list[str] = []
    for each, lines in zip(hypotheses, imports, strict=True):
        head.update(dict.fromkeys(lines))
        setup, moved = _split_imports(each.setup)
        head.update(dict.fromkeys(moved))
        head.update(dict.fromkeys(_helpers(each, unit)))
        files = _files(each, unit)
        text = "\n".join([*map(_indentable, setup), *_check(each, unit)])
        if "await " in text:
            head["import asyncio"] = None
            text = f"async def scenario():\n{textwrap.indent(text, _TAB)}\n\nasyncio.run(scenario())"
        comment = [f"# Now: {line}" for line in textwrap.wrap(each.reason, 96)]
        body = "\n".join([*comment, *files, text])
        name = _name(title, each, names)
        names.append(name)
        arguments = "self" if unit else "tmp_path, monkeypatch" if files else ""
        bodies.append(f"def {name}({arguments}):\n{textwrap.indent(body, _TAB)}")
    if unit:
        head["import unittest"] = None
        joined = "\n\n".join(textwrap.indent(body, _TAB) for body in bodies)
        code = f"class IssueTest(unittest.TestCase):\n{joined}"
    else:
        code = "\n\n\n".join(bodies)
    return Rendered(
        "\n".join([*heading(title, quote), *_sorted_imports(head), "", "", code, ""]), tuple(names)
    )


def heading(title: str, quote: str) -> list[str]:
    """The comment above a module that says where it comes from."""
    lines = [f"# Made from an issue: {_one_line(title)}" if title else "# Made from an issue."]
    lines += [f"#   {line}".rstrip() for line in quote.split("\n")[:_MAX_QUOTE_LINES] if line]
    return [*lines, ""]


def _helpers(each: Hypothesis, unit: bool) -> list[str]:
    """Import lines of what the test itself uses."""
    lines: list[str] = []
    if unit and each.snippet is not None and each.snippet.attachments:
        lines += ["import os", "import shutil", "import tempfile"]
    if each.check is Check.OUTPUT:
        lines += ["import contextlib", "import io"]
    if not unit and (each.check is Check.RAISES or _approximate(each)):
        lines.append("import pytest")
    return lines


def _indentable(source: str) -> str:
    """The statement without strings that run over lines: indentation would become part of them."""
    tree = parse_python(source)
    if tree is None:
        return source
    strings = (node for node in ast.walk(tree) if isinstance(node, (ast.Constant, ast.JoinedStr)))
    long = any((node.end_lineno or node.lineno) > node.lineno for node in strings)
    return ast.unparse(tree) if long else source


def _check(each: Hypothesis, unit: bool) -> list[str]:
    target, expected = each.target, each.expected
    match each.check:
        case Check.EQUAL:
            return [_equal(each, unit)]
        case Check.TEXT:
            text = expected.rstrip("\n")
            return [
                f"self.assertEqual(str({target}), {text!r})" if unit else f"assert str({target}) == {text!r}"
            ]
        case Check.REPR:
            text = " ".join(expected.split()) if "\n" in expected else expected
            return [
                f"self.assertEqual(repr({target}), {text!r})"
                if unit
                else f"assert repr({target}) == {text!r}"
            ]
        case Check.OUTPUT:
            lines = expected.split("\n")
            body = textwrap.indent(
                "\n".join(_indentable(each_line) for each_line in _statements(target)), _TAB
            )
            actual = "[line.rstrip() for line in out.getvalue().strip('\\n').split('\\n')]"
            compare = f"self.assertEqual({actual}, {lines!r})" if unit else f"assert {actual} == {lines!r}"
            return ["out = io.StringIO()", f"with contextlib.redirect_stdout(out):\n{body}", compare]
        case Check.RAISES:
            name = expected.rpartition(".")[2]
            opening = f"with self.assertRaises({name}):" if unit else f"with pytest.raises({name}):"
            return [f"{opening}\n{textwrap.indent(target, '    ')}"]
        case Check.QUIET:
            return [target]
        case Check.ASSERT:
            return [_unit_assert(target) if unit else target]


def _statements(source: str) -> list[str]:
    return [step.source for step in steps_of(source)]


def _equal(each: Hypothesis, unit: bool) -> str:
    target, expected = each.target, each.expected.strip()
    if expected == "None":
        return f"self.assertIsNone({target})" if unit else f"assert {_operand(target)} is None"
    boolean = expected in ("True", "False")
    if boolean and each.actual in ("True", "False", ""):
        return f"self.assertIs({target}, {expected})" if unit else f"assert ({target}) is {expected}"
    if _approximate(each):
        if unit:
            return f"self.assertAlmostEqual({target}, {expected})"
        return f"assert {_operand(target)} == pytest.approx({expected})"
    return f"self.assertEqual({target}, {expected})" if unit else f"assert {_operand(target)} == {expected}"


def _operand(target: str) -> str:
    tree = parse_python(target)
    plain = (ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.BinOp)
    simple = tree is not None and isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, plain)
    return target if simple else f"({target})"


def _approximate(each: Hypothesis) -> bool:
    """Whether the right code may differ in the last digits from what a person wrote."""
    if each.check is not Check.EQUAL:
        return False
    known, value = literal(each.expected)
    if not known or not isinstance(value, float) or value != value or value in (float("inf"), float("-inf")):
        return False
    mine, actual = literal(each.actual)
    near = mine and isinstance(actual, (int, float)) and abs(actual - value) <= 1e-6 * max(1.0, abs(value))
    return not near


def _unit_assert(source: str) -> str:
    """An assert statement in unittest's words, where it compares two things."""
    tree = parse_python(source)
    if tree is None or not isinstance(tree.body[0], ast.Assert):
        return source
    test = tree.body[0].test
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        name = _UNIT_NAMES.get(type(test.ops[0]).__name__)
        if name:
            return f"self.{name}({ast.unparse(test.left)}, {ast.unparse(test.comparators[0])})"
    return f"self.assertTrue({ast.unparse(test)})"


def _files(each: Hypothesis, unit: bool) -> list[str]:
    """Statements that put the issue's files into a folder of the test's own, and go there."""
    attachments = each.snippet.attachments if each.snippet else ()
    if not attachments:
        return []
    lines: list[str] = []
    if unit:
        lines += ["folder = tempfile.mkdtemp()", "self.addCleanup(shutil.rmtree, folder)"]
    for attachment in attachments:
        if not unit:
            place = f"tmp_path / {attachment.name!r}"
            if "/" in attachment.name:
                lines.append(f"({place}).parent.mkdir(parents=True, exist_ok=True)")
            lines.append(f"({place}).write_text({attachment.text!r}, encoding='utf-8')")
            continue
        place = f"os.path.join(folder, {attachment.name!r})"
        if "/" in attachment.name:
            lines.append(f"os.makedirs(os.path.dirname({place}), exist_ok=True)")
        lines.append(f"with open({place}, 'w', encoding='utf-8') as file:")
        lines.append(f"    file.write({attachment.text!r})")
    if unit:
        return [*lines, "self.addCleanup(os.chdir, os.getcwd())", "os.chdir(folder)"]
    return [*lines, "monkeypatch.chdir(tmp_path)"]


def _split_imports(setup: Iterable[str]) -> tuple[list[str], list[str]]:
    kept: list[str] = []
    moved: list[str] = []
    for source in setup:
        if re.match(r"(?:from\s+[\w.]+\s+)?import\s", source):
            moved.append(" ".join(source.split()) if "(" not in source else source)
        else:
            kept.append(source)
    return kept, moved


def _sorted_imports(lines: Iterable[str]) -> list[str]:
    """Import lines in order, those from one module joined."""
    plain: list[str] = []
    others: list[str] = []
    names: dict[str, dict[str, None]] = {}
    for line in dict.fromkeys(lines):
        match = re.match(r"from\s+([\w.]+)\s+import\s+([\w, ]+)$", line)
        if line.startswith("import "):
            plain.append(line)
        elif match:
            names.setdefault(match[1], {}).update(dict.fromkeys(re.findall(r"\w+(?: as \w+)?", match[2])))
        else:
            others.append(line)
    joined = [f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)]
    return [*sorted(plain), *joined, *sorted(others)]


def _name(title: str, each: Hypothesis, used: Sequence[str]) -> str:
    called = re.findall(r"([A-Za-z_]\w*)\(", each.target)
    title = "" if "(" in title else title
    words = re.findall(r"[a-z0-9]+", (title or f"{called[-1] if called else 'issue'} as expected").lower())
    slug = "_".join(words)[:_MAX_NAME]
    slug = slug.rsplit("_", 1)[0] if len(slug) == _MAX_NAME else slug
    stem = f"test_{slug or 'the_issue'}" if not each.holds else "test_the_issue_example_that_is_right"
    name, count = stem, 1
    while name in used:
        count += 1
        name = f"{stem}_{count}"
    return name


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 90 else flat[:87] + "..."
