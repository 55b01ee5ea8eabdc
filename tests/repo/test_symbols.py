"""Definitions, references and syntax errors of one real sample per language."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from whimbrel.app.repo import languages, symbols
from whimbrel.app.repo.symbols import definitions, enclosing, outline, references, syntax_errors

SAMPLES = Path(__file__).parent.parent / "fixtures" / "symbols"

EXPECTED: dict[str, tuple[str, str]] = {
    "Account.java": (
        "java",
        """
        class Account 5-40
        constant Account.MAX_ENTRIES 6-6
        constructor Account.Account 9-11
        method Account.compareTo 13-16
        method Account.copy 18-20
        enum Account.Level 22-29
        method Account.Level.better 26-28
        interface Account.Listener 31-33
        method Account.Listener.changed 32-32
        record Account.Entry 35-39
        constructor Account.Entry.Entry 36-38
        """,
    ),
    "Clock.cs": (
        "c_sharp",
        """
        namespace Acme.Time 3-3
        delegate Acme.Time.Ticked 5-5
        interface Acme.Time.IClock 7-11
        property Acme.Time.IClock.Now 9-9
        method Acme.Time.IClock.Tick 10-10
        record Acme.Time.Span 13-13
        struct Acme.Time.Instant 15-18
        enum Acme.Time.Zone 20-20
        class Acme.Time.Clock 22-45
        constant Acme.Time.Clock.Limit 24-24
        constructor Acme.Time.Clock.Clock 26-29
        property Acme.Time.Clock.Zone 31-31
        property Acme.Time.Clock.Now 33-33
        method Acme.Time.Clock.Tick 35-39
        function Acme.Time.Clock.Tick.Next 37-37
        class Acme.Time.Clock.Hand 41-44
        method Acme.Time.Clock.Hand.Turn 43-43
        """,
    ),
    "Router.php": (
        "php",
        """
        namespace App\\Http 3-3
        constant App\\Http\\DEFAULT_METHOD 7-7
        interface App\\Http\\Handler 9-12
        method App\\Http\\Handler::handle 11-11
        trait App\\Http\\Logs 14-20
        method App\\Http\\Logs::log 16-19
        enum App\\Http\\Method 22-30
        method App\\Http\\Method::safe 26-29
        class App\\Http\\Router 32-49
        constant App\\Http\\Router::LIMIT 36-36
        method App\\Http\\Router::__construct 38-38
        method App\\Http\\Router::handle 40-43
        method App\\Http\\Router::make 45-48
        function App\\Http\\route 51-54
        """,
    ),
    "badge.tsx": (
        "tsx",
        """
        interface Props 3-5
        function Badge 7-10
        function Badge.click 8-8
        function Row 12-12
        """,
    ),
    "cart.js": (
        "javascript",
        """
        constant MAX_ITEMS 3-3
        class Cart 6-26
        method Cart.onChange 8-8
        method Cart.constructor 10-13
        method Cart.total 15-17
        method Cart.load 19-21
        method Cart.[Symbol.iterator] 23-25
        function pages 28-30
        function discount 32-32
        method handlers.add 35-35
        method handlers.remove 36-36
        function format 39-41
        """,
    ),
    "grid.cpp": (
        "cpp",
        """
        namespace board::core 4-38
        enum board::core::Cell 6-6
        class board::core::Grid 8-18
        method board::core::Grid::Grid 10-10
        method board::core::Grid::~Grid 11-11
        method board::core::Grid::width 12-12
        method board::core::Grid::at 13-13
        method board::core::Grid::operator== 14-14
        method board::core::Grid::Grid 20-20
        method board::core::Grid::at 22-24
        function board::core::clamp 27-29
        struct board::core::Point 31-34
        type board::core::Path 36-36
        function main 40-42
        """,
    ),
    "queue.go": (
        "go",
        """
        constant MaxSize 5-5
        variable ErrFull 7-7
        struct Item 9-12
        interface Store 14-17
        method Store.Push 15-15
        method Store.Len 16-16
        struct Queue 19-21
        type Weight 23-23
        type Visitor 24-24
        function New 26-28
        method Queue.Push 30-36
        method Item.String 38-40
        """,
    ),
    "report.rb": (
        "ruby",
        """
        module Billing 3-29
        constant Billing::RATE 4-4
        class Billing::Report 6-28
        method Billing::Report.build 9-9
        method Billing::Report#initialize 11-13
        method Billing::Report#total? 15-17
        method Billing::Report#== 19-21
        method Billing::Report.empty 24-26
        function main 31-33
        """,
    ),
    "ring.c": (
        "c",
        """
        constant RING_SIZE 3-3
        macro MIN 4-4
        type ring_t 6-9
        struct ring 6-9
        union number 11-14
        enum mode 16-16
        function ring_push 18-22
        function ring_new 24-26
        """,
    ),
    "shapes.rs": (
        "rust",
        """
        constant SIDES 3-3
        constant NAME 4-4
        trait Shape 6-11
        method Shape::area 7-7
        method Shape::name 8-10
        struct Square 14-16
        enum Kind 18-21
        method Square::area 24-26
        method Square::new 30-32
        module units 35-41
        type units::Metre 36-36
        function units::convert 38-40
        macro square 43-47
        """,
    ),
    "stock.py": (
        "python",
        """
        constant REORDER_LEVEL 7-7
        class OutOfStock 11-12
        class Shelf 15-39
        method Shelf.__init__ 18-20
        method Shelf.free 23-24
        method Shelf.refill 26-35
        function Shelf.refill.take 31-32
        class Shelf.Label 37-39
        method Shelf.Label.text 38-39
        function nearest 43-44
        """,
    ),
    "store.ts": (
        "typescript",
        """
        interface Repository 1-4
        method Repository.find 2-2
        type Key 6-6
        enum State 8-8
        namespace Units 10-14
        function Units.grams 11-13
        class Base 16-32
        method Base.constructor 17-17
        method Base.describe 19-19
        method Base.find 21-23
        method Base.size 25-27
        method Base.log 29-31
        function parse 34-34
        function parse 35-35
        function parse 36-38
        constant LIMIT 40-40
        function double 41-41
        """,
    ),
}


def read(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_definition_of_a_sample_is_found_with_its_lines(name: str) -> None:
    language, table = EXPECTED[name]
    found = outline(name, read(name))
    lines = [f"{s.kind} {s.qualified_name} {s.line}-{s.end_line}" for s in found.symbols]
    assert (found.language, lines) == (language, textwrap.dedent(table).strip().splitlines())
    assert found.note == ""


def test_every_language_has_a_sample() -> None:
    assert {language for language, _ in EXPECTED.values()} == set(languages.LANGUAGES)


@pytest.mark.parametrize(
    ("name", "qualified", "signature"),
    [
        ("stock.py", "Shelf.refill", 'async def refill( self, source: "Shelf", count: int = 1, ) -> int:'),
        ("store.ts", "Base.find", "async find(id: string): Promise<T | undefined>"),
        ("queue.go", "Queue.Push", "func (q *Queue[T]) Push(item T) error"),
        ("shapes.rs", "units::convert", "pub fn convert(value: f64) -> Metre"),
        ("ring.c", "ring_push", "static int ring_push(ring_t *ring, int value)"),
        ("Account.java", "Account.copy", "static <T> List<T> copy(List<T> source)"),
    ],
)
def test_a_signature_ends_where_the_body_begins(name: str, qualified: str, signature: str) -> None:
    (symbol,) = [s for s in outline(name, read(name)).symbols if s.qualified_name == qualified]
    assert symbol.signature == signature


def test_enclosing_names_the_innermost_definition() -> None:
    data = read("stock.py")
    names = [enclosing("stock.py", data, line) for line in (32, 34, 24, 7, 9)]
    assert [n.qualified_name if n else None for n in names] == [
        "Shelf.refill.take",
        "Shelf.refill",
        "Shelf.free",
        "REORDER_LEVEL",
        None,
    ]


def test_references_are_identifiers_and_not_text_in_strings_or_comments() -> None:
    data = b'def free(x):\n    # free of charge\n    return "free" + free(x.free) + freedom\n'
    found = references("a.py", data, "free")
    assert [(r.line, r.column) for r in found] == [(1, 5), (3, 21), (3, 28)]
    assert found[1].text == 'return "free" + free(x.free) + freedom'


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_samples_parse_without_syntax_errors(name: str) -> None:
    assert syntax_errors(name, read(name)) == ()


def test_a_broken_file_still_gives_its_other_definitions_and_says_so() -> None:
    data = b"def good():\n    return 1\n\n\ndef bad(:\n    return (\n\n\nclass Fine:\n    pass\n"
    found = outline("a.py", data)
    assert "good" in [s.name for s in found.symbols]
    assert "syntax errors" in found.note
    problems = syntax_errors("a.py", data)
    assert problems and problems[0].line == 5


def test_binary_huge_and_minified_files_are_not_parsed_and_the_note_says_why() -> None:
    assert outline("a.py", b"def f(): pass\n\0\1").note == "binary content"
    assert "larger than" in outline("a.py", b"x = 1\n" * 400_000).note
    assert "minified" in outline("a.js", b"function f(){};" * 3000).note
    assert outline("a.js", b"function f(){};" * 3000).symbols == ()


def test_deep_nesting_neither_crashes_nor_hangs() -> None:
    data = b"x = " + b"\n(" * 100_000 + b"\ndef f():\n    pass\n"
    assert outline("a.py", data).language == "python"
    syntax_errors("a.py", data)


def test_slow_parsing_is_given_up_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "MAX_SECONDS", -1.0)
    found = outline("a.py", b"def f():\n    return 1\n" * 20_000)
    assert found.symbols == ()
    assert found.note.startswith("not parsed within")


def test_a_missing_grammar_costs_its_language_only_and_says_what_to_install() -> None:
    # A fresh interpreter in which the wheel cannot be imported, as on a partial install.
    code = (
        "import sys; sys.modules['tree_sitter_go'] = None\n"
        "from whimbrel.app.repo.symbols import outline\n"
        "print(outline('a.go', b'package a').note)\n"
        "print(len(outline('a.py', b'def f(): pass').symbols))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "no symbols for go: the grammar is not installed (pip install tree-sitter-go)",
        "1",
    ]


def test_grammars_are_loaded_only_when_a_file_of_theirs_is_read() -> None:
    code = (
        "import sys\n"
        "from whimbrel.app.repo.symbols import outline\n"
        "before = [m for m in sys.modules if m.startswith('tree_sitter')]\n"
        "outline('a.go', b'package a')\n"
        "print(before, sorted(m for m in sys.modules if m in ('tree_sitter_go', 'tree_sitter_java')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] ['tree_sitter_go']"


@pytest.mark.parametrize(
    ("path", "data", "language"),
    [
        ("a.h", b"int f(void);\n", "c"),
        ("a.h", b"namespace x { class Y; }\n", "cpp"),
        ("a.C", b"", "cpp"),
        ("A.PY", b"", "python"),
        ("bin/tool", b"#!/usr/bin/env python3.11\n", "python"),
        ("bin/tool", b"#!/usr/bin/env -S node --flag\n", "javascript"),
        ("bin/tool", b"#!/bin/sh\n", None),
        ("notes.txt", b"#!/usr/bin/python\n", None),
    ],
)
def test_languages_are_told_by_suffix_content_and_first_line(
    path: str, data: bytes, language: str | None
) -> None:
    info = languages.detect(path, data)
    assert (info.name if info else None) == language


def test_definitions_over_files_by_name_skip_what_cannot_be_read_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "a.py").write_text("class Cart:\n    def total(self):\n        return 1\n")
    (tmp_path / "b.go").write_text("package b\n\nfunc total() int { return 1 }\n")
    (tmp_path / "c.txt").write_text("total")
    (tmp_path / "big.py").write_text("total = 1\n" * 300_000)
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.py")
    files = ["pkg/a.py", "b.go", "c.txt", "big.py", "link.py", "pipe.py", "gone.py"]
    found = definitions(tmp_path, files, "total")
    assert [(s.path, s.qualified_name) for s in found.symbols] == [
        ("pkg/a.py", "Cart.total"),
        ("b.go", "total"),
    ]
    notes = "\n".join(found.notes)
    assert "big.py: larger than" in notes
    assert "link.py" in notes and "symbolic link" in notes
    assert "pipe.py" in notes and "a FIFO" in notes
    assert "gone.py" in notes
