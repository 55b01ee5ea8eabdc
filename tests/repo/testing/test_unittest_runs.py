"""unittest through the adapter, without pytest being there at all."""

from __future__ import annotations

import pytest
from whimbrel.app.repo.testing.adapters import UnittestAdapter
from whimbrel.app.repo.testing.problems import RunProblem

FILES = {
    "shop.py": "def net(gross):\n    return 100 / gross\n",
    "tests/__init__.py": "",
    "tests/test_shop.py": """
        import unittest
        from shop import net

        class TestNet(unittest.TestCase):
            def test_good(self):
                print("said")
                self.assertEqual(net(1), 100)
            def test_wrong(self):
                self.assertEqual(net(1), 99)
            def test_raises(self):
                net(0)
            def test_parts(self):
                for part in (1, 2, 3):
                    with self.subTest(part=part):
                        self.assertNotEqual(part, 2)
            @unittest.expectedFailure
            def test_expected(self):
                self.fail("known")
            @unittest.expectedFailure
            def test_surprise(self):
                pass
            @unittest.skip("not today")
            def test_skipped(self):
                pass
            def test_asks(self):
                input()

        class TestSetUp(unittest.TestCase):
            def setUp(self):
                raise KeyError("fixture")
            def test_never(self):
                pass

        class TestClass(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                raise KeyError("class fixture")
            def test_one(self):
                pass
            def test_two(self):
                pass
    """,
    "tests/test_broken.py": "import stork_client\n",
}


@pytest.mark.parametrize("version", ["3.8", "3.11", "3.13"])
async def test_every_kind_of_outcome_without_pytest(project, interpreter, version):
    made = await project(FILES, python=interpreter(version, "nothing"), adapter=UnittestAdapter())
    run = await made.runner.run(purpose="baseline")
    cases = {case.id.removeprefix("tests.test_shop."): case for case in run.report.cases}
    assert {name: case.outcome.value for name, case in cases.items()} == {
        "TestNet.test_good": "passed",
        "TestNet.test_wrong": "failed",
        "TestNet.test_raises": "failed",
        "TestNet.test_parts": "failed",
        "TestNet.test_expected": "xfailed",
        "TestNet.test_surprise": "failed",
        "TestNet.test_skipped": "skipped",
        "TestNet.test_asks": "failed",
        "TestSetUp.test_never": "error",
        "TestClass.test_one": "error",
        "TestClass.test_two": "error",
    }
    raises = cases["TestNet.test_raises"]
    assert raises.exception == "ZeroDivisionError"
    assert [(frame.path, frame.function) for frame in raises.frames] == [
        ("tests/test_shop.py", "test_raises"),
        ("shop.py", "net"),
    ]
    assert raises.path == "tests/test_shop.py" and raises.line == 11
    assert "part=2" in cases["TestNet.test_parts"].message
    assert "said" in cases["TestNet.test_good"].output
    assert cases["TestNet.test_asks"].exception == "EOFError"
    (error,) = run.report.collection_errors
    assert (error.path, error.exception) == ("tests/test_broken.py", "ModuleNotFoundError")
    assert run.problem is RunProblem.MISSING_DEPENDENCY and "stork_client" in run.problem_detail


async def test_one_test_and_one_class_run_alone(project):
    made = await project(FILES, adapter=UnittestAdapter())
    run = await made.runner.run(["tests.test_shop.TestNet.test_wrong"], purpose="tool")
    assert list(run.report.by_id()) == ["tests.test_shop.TestNet.test_wrong"]
    run = await made.runner.run(["tests.test_shop.TestNet"], purpose="tool")
    assert len(run.report.cases) == 8


async def test_a_test_folder_that_is_no_package_is_found(project):
    made = await project(
        {
            "tests/test_a.py": """
                import unittest
                class TestA(unittest.TestCase):
                    def test_a(self): pass
            """,
        },
        adapter=UnittestAdapter(),
    )
    assert await made.runner.collect() == ("test_a.TestA.test_a",)


async def test_a_slow_unittest_times_out_alone(project):
    made = await project(
        {
            "test_a.py": """
                import time, unittest
                class TestA(unittest.TestCase):
                    def test_a(self):
                        time.sleep(600)
                    def test_b(self):
                        pass
            """
        },
        adapter=UnittestAdapter(),
        test_timeout_s=1,
    )
    cases = (await made.runner.run(purpose="baseline")).report.by_id()
    assert [case.outcome.value for case in cases.values()] == ["timeout", "passed"]
