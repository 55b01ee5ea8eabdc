"""Tracebacks read out of text, as interpreters, pytest and CI systems print them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from whimbrel.app.repo.foreign_paths import PathIndex
from whimbrel.app.repo.stacktrace import parse_traces

FILES = ("src/shop/price.py", "src/shop/__init__.py", "tests/test_price.py", "setup.py", "tools/price.py")


def places(trace):
    return [(frame.path, frame.line, frame.function) for frame in trace.frames]


def run_python(folder: Path, source: str, python: str = sys.executable) -> str:
    (folder / "script.py").write_text(source)
    done = subprocess.run([python, "script.py"], cwd=folder, capture_output=True, text=True, check=False)
    return done.stderr


CHAINED = """\
def inner():
    return {}["key"]

def outer():
    try:
        inner()
    except KeyError as error:
        raise ValueError("two\\nlines") from error

outer()
"""


@pytest.mark.parametrize("version", ["3.8", "3.11", "3.13"])
def test_a_chained_traceback_of_a_real_interpreter(tmp_path, interpreter, version):
    text = run_python(tmp_path, CHAINED, interpreter(version, "nothing"))
    (trace,) = parse_traces("noise before\n" + text + "\nnoise after\n", ["script.py"])
    assert (trace.exception, trace.message) == ("ValueError", "two\nlines")
    assert places(trace) == [("script.py", 10, "<module>"), ("script.py", 8, "outer")]
    assert [frame.code for frame in trace.frames] == ["outer()", 'raise ValueError("two\\nlines") from error']
    (cause,) = trace.causes
    assert cause.exception == "KeyError"
    assert places(cause) == [("script.py", 6, "outer"), ("script.py", 2, "inner")]
    assert [frame.line for frame in trace.all_frames()] == [6, 2, 10, 8]


def test_the_members_of_an_exception_group_belong_to_it(tmp_path, interpreter):
    source = (
        "def one(): raise ValueError('first')\n"
        "def two(): return 1 / 0\n"
        "errors = []\n"
        "for function in (one, two):\n"
        "    try: function()\n"
        "    except Exception as error: errors.append(error)\n"
        "raise ExceptionGroup('both', errors)\n"
    )
    (trace,) = parse_traces(run_python(tmp_path, source, interpreter("3.13", "nothing")), ["script.py"])
    assert (trace.exception, trace.message) == ("ExceptionGroup", "both (2 sub-exceptions)")
    assert [(member.exception, places(member)[-1]) for member in trace.causes] == [
        ("ValueError", ("script.py", 1, "one")),
        ("ZeroDivisionError", ("script.py", 2, "two")),
    ]


def test_repeated_lines_and_a_syntax_error_are_understood(tmp_path):
    (trace,) = parse_traces(run_python(tmp_path, "def f(): f()\nf()\n"), ["script.py"])
    assert trace.exception == "RecursionError" and trace.frames[0].line == 2
    (trace,) = parse_traces(
        'Traceback (most recent call last):\n  File "main.py", line 1, in <module>\n    import mod\n'
        '  File "/x/mod.py", line 2\n    def f(:\n          ^\nSyntaxError: invalid syntax\n',
        ["mod.py"],
    )
    assert trace.exception == "SyntaxError"
    assert places(trace)[-1] == ("mod.py", 2, "<module>")


PROJECT = {
    "shop.py": "def net(x):\n    return rate(x)\n\ndef rate(x):\n    return 1 / x\n",
    "test_shop.py": (
        "from shop import net\n"
        "def test_deep():\n"
        "    net(0)\n"
        "def test_plain():\n"
        "    assert net(1) == 3, 'wrong'\n"
        "def test_chain():\n"
        "    try:\n"
        "        net(0)\n"
        "    except ZeroDivisionError as error:\n"
        "        raise KeyError('k') from error\n"
    ),
}


@pytest.mark.parametrize("style", ["long", "short", "native", "auto"])
def test_pytests_own_styles_give_the_same_places(tmp_path, style):
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", f"--tb={style}", "-p", "no:cacheprovider", "--color=yes"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    traces = {trace.test: trace for trace in parse_traces(done.stdout, list(PROJECT))}
    deep = traces["test_deep"]
    assert deep.exception == "ZeroDivisionError" and deep.message == "division by zero"
    assert places(deep) == [("test_shop.py", 3, "test_deep"), ("shop.py", 2, "net"), ("shop.py", 5, "rate")]
    assert deep.frames[-1].code == "return 1 / x"
    plain = traces["test_plain"]
    assert plain.exception == "AssertionError" and plain.message.startswith("wrong")
    assert places(plain) == [("test_shop.py", 5, "test_plain")]
    chain = traces["test_chain"]
    assert chain.exception == "KeyError"
    assert [cause.exception for cause in chain.causes] == ["ZeroDivisionError"]
    assert places(chain)[-1] == ("test_shop.py", 10, "test_chain")


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-01-01T00:00:00.1234567Z ",
        "build\tRun tests\t2026-01-01T00:00:00.1234567Z ",
        "[2026-01-01T00:00:00.000Z] ",
        "web_1  | ",
        "\x1b[36m",
        "#12 3.456 ",
        "    ",
    ],
)
def test_prefixes_of_ci_systems_do_not_hide_a_traceback(prefix):
    text = (
        "Traceback (most recent call last):\n"
        '  File "/home/runner/work/shop/shop/src/shop/price.py", line 7, in net\n'
        "    return rate(gross)\n"
        "           ~~~~^^^^^^^\n"
        '  File "/usr/lib/python3.12/json/decoder.py", line 3, in decode\n'
        "    raise ValueError\n"
        "ValueError: no price\n"
        "##[endgroup]\n"
    )
    lines = "\n".join(prefix + line for line in text.splitlines())
    (trace,) = parse_traces("##[group]Run pytest\n" + lines, FILES)
    assert (trace.exception, trace.message.split("\n")[0]) == ("ValueError", "no price")
    assert [(frame.path, frame.in_repository, frame.code) for frame in trace.frames] == [
        ("src/shop/price.py", True, "return rate(gross)"),
        ("/usr/lib/python3.12/json/decoder.py", False, "raise ValueError"),
    ]


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ("/home/ci/build/src/shop/price.py", "src/shop/price.py"),
        ("C:\\agent\\1\\src\\shop\\price.py", "src/shop/price.py"),
        ("/venv/lib/python3.12/site-packages/shop/price.py", "src/shop/price.py"),
        ("/venv/lib/python3.12/site-packages/other/__init__.py", None),
        ("/usr/lib/python3.12/price.py", None),
        ("../tests/test_price.py", "tests/test_price.py"),
        ("test_price.py", "tests/test_price.py"),
        ("price.py", None),
        ("/work/checkout/setup.py", "setup.py"),
        ("<string>", None),
        ("/elsewhere/unknown.py", None),
    ],
)
def test_paths_of_other_machines_are_mapped_by_their_longest_tail(printed, found):
    assert PathIndex(FILES).find(printed) == found
