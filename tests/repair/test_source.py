"""Edits leave everything outside them byte for byte, whatever the file looks like."""

from __future__ import annotations

import ast
import sys

import pytest
from whimbrel.app.repair.families import all_families
from whimbrel.app.repair.scope import ModuleView
from whimbrel.app.repair.source import Edit, ModuleSource, UnreadableSource, apply_edits


def results(data: bytes, family: str) -> set[bytes]:
    """All files that one family makes of a file."""
    source = ModuleSource("m.py", data)
    view = ModuleView(source)
    (chosen,) = (each for each in all_families() if each.name == family)
    made: set[bytes] = set()
    for node in ast.walk(source.tree):
        if hasattr(node, "lineno") and not source.editable(node):
            continue
        for proposal in chosen.propose(node, view):
            made.add(source.encode(apply_edits(source.text, proposal.edits)))
    return made


def test_crlf_tabs_and_trailing_blanks_survive():
    data = b"def f(a, b):\r\n\tif a <  b:   # odd  spacing \r\n\t\treturn a\r\n\treturn b"
    assert data.replace(b"<  b", b"<=  b") in results(data, "comparison")


def test_an_inserted_guard_uses_the_files_own_line_ends_and_tabs():
    data = b"def f(a):\r\n\treturn a.b\r\n"
    expected = b"def f(a):\r\n\tif a is None:\r\n\t\treturn None\r\n\treturn a.b\r\n"
    assert expected in results(data, "guard")


def test_a_byte_order_mark_survives():
    data = b"\xef\xbb\xbfx = 1\nif x == 2:\n    pass\n"
    assert data.replace(b"==", b"!=") in results(data, "comparison")


def test_latin_1_source_stays_latin_1():
    data = "# -*- coding: latin-1 -*-\nname = 'é'  # é\nif name == 'ü': x = 1\n".encode("latin-1")
    assert data.replace(b"==", b"!=") in results(data, "comparison")


def test_columns_after_wide_characters_are_right():
    data = "ok = 'ß漢😀' < name  # 漢\nname = 1\n".encode()
    assert data.replace(b"<", b"<=") in results(data, "comparison")


def test_a_file_without_a_last_newline_stays_without_one():
    data = b"def f(a):\n    b = a\n    a + b"
    assert b"def f(a):\n    b = a\n    return a + b" in results(data, "return")
    assert b"def f(a):\n    b = a\n    a + b\n    return b" in results(data, "return")


def test_a_form_feed_does_not_shift_lines():
    data = b"x = 1\n\x0c\nif x < 2:\n    pass\n"
    assert data.replace(b"<", b"<=") in results(data, "comparison")


def test_statements_sharing_a_line_are_edited_alone():
    data = b"def f(a):\n    a.x(); a.y()\n    return 1\n"
    assert b"def f(a):\n    pass; a.y()\n    return 1\n" in results(data, "deletion")


def test_the_operator_is_found_between_parentheses_and_comments():
    data = b"y = (a  # +\n     ) - (b)\n"
    assert b"y = (a  # +\n     ) + (b)\n" in results(data, "arithmetic")


def test_literal_text_of_f_strings_is_left_alone():
    data = b"def f(x):\n    return f'a < {x} and 1'\n"
    for made in results(data, "constant") | results(data, "comparison"):
        assert b"a < " in made and b" and 1'" in made


def test_expressions_inside_f_strings_are_edited_where_positions_are_known():
    data = b"def f(x):\n    return f'{x + 1}'\n"
    made = results(data, "arithmetic")
    if sys.version_info >= (3, 12):
        assert b"def f(x):\n    return f'{x - 1}'\n" in made
    else:
        assert not made


def test_a_dedented_statement_keeps_its_comment():
    data = b"def f(xs):\n    t = 0\n    for x in xs:\n        t += x\n        return t  # sum\n"
    assert b"def f(xs):\n    t = 0\n    for x in xs:\n        t += x\n    return t  # sum\n" in results(
        data, "move"
    )


def test_source_that_does_not_parse_says_so_in_one_line():
    with pytest.raises(UnreadableSource, match=r"broken\.py cannot be read as Python 3\.\d+ source"):
        ModuleSource("broken.py", b"def f(:\n")


def test_undecodable_source_says_so():
    with pytest.raises(UnreadableSource, match=r"m\.py cannot be read"):
        ModuleSource("m.py", b"x = '\xff'\n")


def test_overlapping_edits_are_refused():
    with pytest.raises(ValueError, match="overlapping"):
        apply_edits("abc", [Edit(0, 2, "x"), Edit(1, 3, "y")])


def test_every_proposal_on_real_source_is_python():
    """Our own modules are as good a corpus as any."""
    from whimbrel.app.repair import candidates, localise
    from whimbrel.app.repair.families import guards

    for module in (candidates, localise, guards):
        with open(str(module.__file__), "rb") as file:
            source = ModuleSource("m.py", file.read())
        view = ModuleView(source)
        proposals = [
            proposal
            for node in ast.walk(source.tree)
            if not hasattr(node, "lineno") or source.editable(node)
            for family in all_families()
            for proposal in family.propose(node, view)
        ]
        assert len(proposals) > 1000
        for proposal in proposals[::37]:
            ast.parse(apply_edits(source.text, proposal.edits))
