"""What a failing CI log says."""

from __future__ import annotations

import subprocess
import sys

from whimbrel.app.repo.cilog import dotted_as_pytest, read_ci_log


def stamped(text: str) -> str:
    return "\n".join(f"2026-01-01T00:00:00.0000000Z {line}" for line in text.splitlines())


def test_a_pytest_log_gives_ids_messages_broken_files_traces_and_the_command(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('x', ['a - b', '[', 'plain'])\n"
        "def test_x(x): assert x == 'plain', 'not - plain'\n"
        "class TestY:\n"
        "    def test_z(self): raise KeyError('z')\n"
        "@pytest.fixture\n"
        "def bad(): raise ValueError('bad')\n"
        "def test_setup(bad): pass\n"
    )
    (tmp_path / "tests" / "test_b.py").write_text("import no_such_thing\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--continue-on-collection-errors"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    log = read_ci_log(
        stamped("##[group]Run python -m pytest\n" + done.stdout), ["tests/test_a.py", "tests/test_b.py"]
    )
    assert set(log.ids()) == {
        "tests/test_a.py::test_x[a - b]",
        "tests/test_a.py::test_x[[]",
        "tests/test_a.py::TestY::test_z",
        "tests/test_a.py::test_setup",
    }
    by_id = {test.id: test for test in log.tests}
    assert by_id["tests/test_a.py::test_x[a - b]"].message.startswith("AssertionError: not - plain")
    assert by_id["tests/test_a.py::test_setup"].kind == "error"
    assert log.broken_files == ("tests/test_b.py",)
    assert log.commands == ("python -m pytest",)
    assert {"KeyError", "ValueError", "ModuleNotFoundError"} <= {trace.exception for trace in log.traces}


def test_a_unittest_log_of_either_form_gives_dotted_ids(tmp_path, interpreter):
    (tmp_path / "test_a.py").write_text(
        "import unittest\n"
        "class TestA(unittest.TestCase):\n"
        "    def test_x(self): self.fail('no')\n"
        "    def test_y(self): 1 / 0\n"
        "    def test_sub(self):\n"
        "        for i in range(2):\n"
        "            with self.subTest(i=i): self.assertEqual(i, 5)\n"
    )
    (tmp_path / "test_b.py").write_text("import no_such_thing\n")
    for version in ("3.8", "3.13"):
        done = subprocess.run(
            [interpreter(version, "nothing"), "-m", "unittest"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        log = read_ci_log(stamped(done.stderr), ["test_a.py"])
        assert set(log.ids()) == {"test_a.TestA.test_x", "test_a.TestA.test_y", "test_a.TestA.test_sub"}
        assert {test.kind for test in log.tests if test.id.endswith("test_y")} == {"error"}
        assert log.broken_files == ("test_b",)
        assert "ZeroDivisionError" in {trace.exception for trace in log.traces}


def test_progress_lines_count_where_the_summary_is_missing():
    log = read_ci_log(
        "tests/test_a.py::test_one PASSED [ 50%]\n"
        "tests/test_a.py::test_two[x y] FAILED [100%]\n"
        "[gw1] [ 30%] FAILED tests/test_a.py::test_three \n"
    )
    assert log.ids() == ("tests/test_a.py::test_two[x y]", "tests/test_a.py::test_three")


def test_paths_of_the_ci_machine_become_the_repositorys():
    log = read_ci_log("FAILED test_a.py::test_x - boom\n", ["backend/tests/test_a.py"])
    assert log.ids() == ("backend/tests/test_a.py::test_x",)


def test_a_dotted_id_finds_its_file():
    files = ["pkg/tests/test_a.py", "pkg/a.py"]
    assert dotted_as_pytest("tests.test_a.TestX.test_y", files) == "pkg/tests/test_a.py::TestX::test_y"
    assert dotted_as_pytest("gone.TestX.test_y", files) is None


def test_a_log_without_failures_is_empty():
    log = read_ci_log("collected 3 items\n\ntests/test_a.py ...\n\n3 passed in 0.1s\n")
    assert log.tests == () and log.traces == () and log.broken_files == ()
