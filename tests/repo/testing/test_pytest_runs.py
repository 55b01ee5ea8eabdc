"""pytest through the adapter, on the project's own interpreter and pytest version."""

from __future__ import annotations

import pytest
from whimbrel.app.repo.testing.adapters import PytestAdapter
from whimbrel.app.repo.testing.report import Outcome

EVERY_OUTCOME = {
    "shop/__init__.py": "",
    "shop/price.py": """
        def net(gross):
            if gross < 0:
                raise ValueError("negative")
            return rate(gross)

        def rate(gross):
            return 100 / (gross - 1)
    """,
    "tests/test_price.py": """
        import pytest
        from shop.price import net

        @pytest.fixture
        def broken():
            raise KeyError("no such thing")

        @pytest.fixture
        def broken_later():
            yield
            raise KeyError("too late")

        def test_good():
            print("to stdout")
            assert net(101) == 1

        def test_wrong():
            assert net(11) == 11

        def test_deep():
            net(1)

        def test_chained():
            try:
                net(1)
            except ZeroDivisionError as error:
                raise RuntimeError("while pricing") from error

        def test_setup(broken):
            pass

        def test_teardown(broken_later):
            pass

        def test_skipped():
            pytest.skip("not today")

        @pytest.mark.xfail
        def test_expected():
            assert False

        @pytest.mark.xfail
        def test_unexpected():
            pass

        @pytest.mark.xfail(strict=True)
        def test_strict():
            pass

        def test_asks():
            input()

        @pytest.mark.parametrize("name", ["a b", "[x]", "a::b", "é", "line\\nbreak", "(c) - d"])
        def test_named(name):
            assert name == "a b"
    """,
}

PYTHONS = [("3.8", "pytest==5.4.3"), ("3.8", "pytest"), ("3.11", "pytest"), ("3.13", "pytest")]


@pytest.mark.parametrize("version", PYTHONS, ids=lambda pair: "-".join(pair))
async def test_every_kind_of_outcome_is_reported_with_its_place(project, interpreter, version):
    made = await project(EVERY_OUTCOME, python=interpreter(*version))
    run = await made.runner.run(purpose="baseline")
    cases = {case.id.removeprefix("tests/test_price.py::"): case for case in run.report.cases}
    assert {name: case.outcome for name, case in cases.items() if not name.startswith("test_named")} == {
        "test_good": Outcome.PASSED,
        "test_wrong": Outcome.FAILED,
        "test_deep": Outcome.FAILED,
        "test_chained": Outcome.FAILED,
        "test_setup": Outcome.ERROR,
        "test_teardown": Outcome.ERROR,
        "test_skipped": Outcome.SKIPPED,
        "test_expected": Outcome.XFAILED,
        "test_unexpected": Outcome.XPASSED,
        "test_strict": Outcome.FAILED,
        "test_asks": Outcome.FAILED,
    }
    assert next(name for name in cases if name.startswith("test_named")) == "test_named[a b]"
    assert sum(name.startswith("test_named") for name in cases) == 6
    assert "to stdout" in cases["test_good"].output
    deep = cases["test_deep"]
    assert (deep.exception, deep.message) == ("ZeroDivisionError", "division by zero")
    assert [(frame.path, frame.function, frame.code) for frame in deep.frames] == [
        ("tests/test_price.py", "test_deep", "net(1)"),
        ("shop/price.py", "net", "return rate(gross)"),
        ("shop/price.py", "rate", "return 100 / (gross - 1)"),
    ]
    assert [frame.line for frame in deep.frames] == [22, 5, 8]
    chained = cases["test_chained"]
    assert chained.exception == "RuntimeError"
    assert [frame.function for frame in chained.frames] == ["test_chained", "net", "rate", "test_chained"]
    assert cases["test_setup"].exception == "KeyError"
    assert (cases["test_wrong"].path, cases["test_wrong"].line) == ("tests/test_price.py", 18)
    assert "assert 10.0 == 11" in cases["test_wrong"].message
    assert run.problem is None and run.report.complete
    assert made.leftovers() == []


async def test_one_parametrised_test_runs_alone_whatever_its_name_holds(project):
    made = await project(EVERY_OUTCOME)
    everything = [case.id for case in (await made.runner.run(purpose="baseline")).report.cases]
    odd = [one for one in everything if "test_named" in one]
    for one in odd:
        run = await made.runner.run([one], purpose="tool")
        assert [case.id for case in run.report.cases] == [one]


async def test_a_file_or_a_function_selects_what_is_below_it_and_an_unknown_name_is_said(project):
    made = await project(EVERY_OUTCOME)
    run = await made.runner.run(["tests/test_price.py::test_named"], purpose="tool")
    assert len(run.report.cases) == 6
    run = await made.runner.run(
        ["tests/test_price.py::test_good", "tests/test_price.py::test_gone", "tests/none.py::test_a"],
        purpose="tool",
    )
    assert [case.id for case in run.report.cases] == ["tests/test_price.py::test_good"]
    assert "no test matches tests/test_price.py::test_gone, tests/none.py::test_a" in run.report.note


async def test_ids_stay_the_same_when_the_ini_file_lies_in_a_subfolder(project):
    made = await project(
        {
            "backend/pytest.ini": "[pytest]\n",
            "backend/tests/test_a.py": "def test_a(): pass\n",
        }
    )
    whole = await made.runner.run(purpose="baseline")
    one = await made.runner.run(["backend/tests/test_a.py::test_a"], purpose="tool")
    assert list(whole.report.by_id()) == list(one.report.by_id()) == ["backend/tests/test_a.py::test_a"]


async def test_default_options_that_stop_early_or_need_absent_plugins_do_not_break_the_run(project):
    made = await project(
        {
            "pytest.ini": """
                [pytest]
                addopts = -x -vv --cov=shop --cov-report term-missing --cov-fail-under=100 -n 4 --maxfail=1
                    --reruns 3 -m "not slow" --strict-markers -p no:doctest --durations 5 --junitxml=out.xml
                markers = slow: takes long
            """,
            "test_a.py": """
                import pytest
                def test_first(): assert False
                def test_second(): pass
                @pytest.mark.slow
                def test_slow(): pass
            """,
        }
    )
    run = await made.runner.run(purpose="baseline")
    assert {case.id: case.outcome.value for case in run.report.cases} == {
        "test_a.py::test_first": "failed",
        "test_a.py::test_second": "passed",
    }
    assert await made.workspace.changed_files() == ()


async def test_random_order_and_parallel_plugins_do_not_change_the_order_of_tests(project, interpreter):
    python = interpreter(
        "3.13",
        "pytest",
        "pytest-randomly",
        "pytest-xdist",
        "pytest-cov",
        "pytest-timeout",
        "pytest-rerunfailures",
    )
    made = await project(
        {
            "pytest.ini": "[pytest]\naddopts = -n 2 --cov=. --cov-fail-under=100 --reruns 2\n",
            "test_a.py": "import random\n"
            + "".join(f"def test_{number}(): print(random.random())\n" for number in range(20)),
            "test_b.py": """
                import pytest
                @pytest.mark.timeout(30)
                def test_b(worker_id): assert worker_id == "master"
            """,
        },
        python=python,
    )
    first = await made.runner.run(purpose="baseline")
    second = await made.runner.run(purpose="baseline")
    ids = [case.id for case in first.report.cases]
    assert ids == [f"test_a.py::test_{number}" for number in range(20)] + ["test_b.py::test_b"]
    assert {case.outcome for case in first.report.cases} == {Outcome.PASSED}
    assert [case.output for case in first.report.cases] == [case.output for case in second.report.cases]


async def test_escape_sequences_and_nul_bytes_in_output_arrive_readable(project):
    made = await project(
        {
            "test_a.py": """
                import sys
                def test_a():
                    print("\\x1b[31mred\\x1b[0m nul:\\0 surrogate:\\udc80")
                    sys.stdout.flush()
                    raise ValueError("\\x1b[1mbold\\x1b[0m \\0")
            """
        },
        env={"PYTHONIOENCODING": "utf-8:surrogateescape"},
    )
    (case,) = (await made.runner.run(purpose="baseline")).report.cases
    assert "red nul:\\x00" in case.output
    assert case.message == "bold \\x00"
    assert not any(mark in case.output + case.message for mark in ("\x1b", "\0"))
    (case.output + case.message).encode("utf-8")


async def test_a_subtest_that_fails_fails_its_test(project):
    made = await project(
        {
            "test_a.py": """
                import unittest
                class TestA(unittest.TestCase):
                    def test_all(self):
                        for number in range(3):
                            with self.subTest(number=number):
                                self.assertNotEqual(number, 1)
                    def test_fine(self):
                        with self.subTest():
                            pass
            """
        }
    )
    cases = (await made.runner.run(purpose="baseline")).report.by_id()
    assert cases["test_a.py::TestA::test_all"].outcome is Outcome.FAILED
    assert "1" in cases["test_a.py::TestA::test_all"].message
    assert cases["test_a.py::TestA::test_fine"].outcome is Outcome.PASSED


async def test_a_stale_bytecode_file_with_the_same_time_and_size_is_not_used(project):
    made = await project(
        {"mod.py": "VALUE = 1\n", "test_a.py": "import mod\ndef test_a(): assert mod.VALUE == 2\n"}
    )
    import os
    import py_compile

    source = made.workspace.root / "mod.py"
    py_compile.compile(str(source))
    before = source.stat()
    source.write_text("VALUE = 2\n")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    (case,) = (await made.runner.run(purpose="baseline")).report.cases
    assert case.outcome is Outcome.PASSED


async def test_each_run_leaves_a_row_with_tree_outcomes_and_log(project):
    made = await project({"test_a.py": "def test_a(): pass\n"})
    first = await made.runner.run(purpose="baseline")
    made.write("test_a.py", "def test_a(): assert 0\n")
    second = await made.runner.run(purpose="verification")
    assert [row.purpose for row in made.ledger.rows] == ["baseline", "verification"]
    assert first.row.tree != second.row.tree
    assert first.row.argv == second.row.argv
    assert first.row.outcomes == {"test_a.py::test_a": "passed"}
    assert second.row.outcomes == {"test_a.py::test_a": "failed"}
    assert second.row.exit_code == 1 and second.row.fresh_process and second.row.sandbox_kind == "host"
    assert len(second.row.log_sha256) == 64
    assert made.ledger.find_fresh(first.row.argv, first.row.tree) == first.row


async def test_collect_lists_ids_without_running_anything(project):
    made = await project(
        {"test_a.py": "def test_a(): raise SystemExit\nclass TestB:\n    def test_c(self): pass\n"}
    )
    assert await made.runner.collect() == ("test_a.py::test_a", "test_a.py::TestB::test_c")


async def test_fail_fast_stops_at_the_first_failure_and_says_the_report_is_partial(project):
    made = await project({"test_a.py": "def test_a(): assert 0\ndef test_b(): pass\n"})
    run = await made.runner.run(purpose="tool", fail_fast=True)
    assert list(run.report.by_id()) == ["test_a.py::test_a"]
    assert not run.report.complete


async def test_options_the_person_gave_are_kept_and_their_paths_give_way_to_a_selection(project):
    made = await project(
        {"a/test_a.py": "def test_a(): pass\n", "b/test_b.py": "def test_b(): pass\n"},
        adapter=PytestAdapter(("a", "-k", "test_a")),
    )
    assert list((await made.runner.run(purpose="tool")).report.by_id()) == ["a/test_a.py::test_a"]
    run = await made.runner.run(["b/test_b.py"], purpose="tool")
    assert list(run.report.by_id()) == ["b/test_b.py::test_b"]
