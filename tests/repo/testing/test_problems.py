"""Telling a broken environment from a bug in the code under repair."""

from __future__ import annotations

import sys

from whimbrel.app.repo.testing.problems import RunProblem
from whimbrel.app.repo.testing.report import Outcome


async def test_an_uninstalled_module_is_a_missing_dependency_and_the_other_files_still_run(project):
    made = await project({"test_a.py": "import flamingo_client\n", "test_b.py": "def test_b(): pass\n"})
    run = await made.runner.run(purpose="baseline")
    assert run.problem is RunProblem.MISSING_DEPENDENCY and run.problem.environment
    assert "flamingo_client" in run.problem_detail
    assert run.report.by_id()["test_b.py::test_b"].outcome is Outcome.PASSED
    assert not run.blocked


async def test_a_misspelt_import_of_the_projects_own_module_is_a_bug_in_the_code(project):
    made = await project(
        {
            "shop/__init__.py": "from shop.prise import net\n",
            "shop/price.py": "net = 1\n",
            "test_a.py": "import shop\ndef test_a(): pass\n",
        }
    )
    run = await made.runner.run(purpose="baseline")
    assert run.problem is RunProblem.COLLECTION_ERROR_IN_CODE and not run.problem.environment
    (error,) = run.report.collection_errors
    assert error.exception == "ModuleNotFoundError"
    assert [frame.path for frame in error.frames] == ["test_a.py", "shop/__init__.py"]


async def test_a_syntax_error_in_the_repository_names_its_file_and_line(project):
    made = await project({"mod.py": "x = 1\ndef f(:\n", "test_a.py": "import mod\n"})
    run = await made.runner.run(purpose="baseline")
    (error,) = run.report.collection_errors
    assert run.problem is RunProblem.COLLECTION_ERROR_IN_CODE
    assert (error.exception, error.frames[-1].path, error.frames[-1].line) == ("SyntaxError", "mod.py", 2)


async def test_a_conftest_that_fails_is_reported_with_its_own_exception(project):
    made = await project({"conftest.py": "import heron_plugin\n", "test_a.py": "def test_a(): pass\n"})
    run = await made.runner.run(purpose="baseline")
    assert run.problem is RunProblem.MISSING_DEPENDENCY and "heron_plugin" in run.problem_detail
    assert run.blocked


async def test_a_missing_compiled_extension_is_not_taken_for_a_bug(project):
    made = await project(
        {
            "shop/__init__.py": "",
            "shop/fast.pyx": "",
            "test_a.py": "from shop import fast\nimport shop.fast\n",
            "test_b.py": "import shop.fast\n",
        }
    )
    run = await made.runner.run(["test_b.py"], purpose="baseline")
    assert run.problem is RunProblem.NOT_BUILT and "shop.fast" in run.problem_detail


async def test_a_name_that_an_installed_package_lacks_is_a_broken_dependency(project):
    made = await project({"test_a.py": "from pytest import no_such_name\n"})
    run = await made.runner.run(purpose="baseline")
    assert run.problem is RunProblem.BROKEN_DEPENDENCY and "no_such_name" in run.problem_detail


async def test_an_interpreter_without_pytest_is_said(project, interpreter):
    made = await project({"test_a.py": "def test_a(): pass\n"}, python=interpreter("3.13", "nothing"))
    run = await made.runner.run(purpose="baseline")
    assert run.problem is RunProblem.FRAMEWORK_MISSING and run.blocked
    assert "pytest" in run.problem_detail


async def test_a_wrong_ini_file_is_a_usage_error_with_pytests_own_sentence(project):
    made = await project(
        {"pytest.ini": "[pytest]\naddopts = --no-such-option\n", "test_a.py": "def test_a(): pass\n"}
    )
    run = await made.runner.run(purpose="baseline")
    assert run.problem is RunProblem.USAGE_ERROR
    assert "--no-such-option" in run.problem_detail


async def test_a_repository_without_tests_is_said(project):
    made = await project({"mod.py": "x = 1\n"})
    run = await made.runner.run(purpose="baseline")
    assert run.problem is RunProblem.NO_TESTS and not run.problem.environment


async def test_an_installed_copy_that_hides_the_repository_is_noticed(project, interpreter, site_packages):
    python = interpreter("3.13", "pytest")
    made = await project(
        {
            "src/shop/__init__.py": "",
            "src/shop/price.py": "VALUE = 2\n",
            "test_a.py": "import shop.price\ndef test_a(): assert shop.price.VALUE == 1\n",
        },
        python=python,
    )
    site = site_packages(python)
    installed = site / "shop"
    installed.mkdir()
    try:
        (installed / "__init__.py").write_text("")
        (installed / "price.py").write_text("VALUE = 1\n")
        run = await made.runner.run(purpose="baseline")
    finally:
        for path in installed.glob("*.py"):
            path.unlink()
        installed.rmdir()
    assert run.problem is RunProblem.IMPORTED_ELSEWHERE
    assert ("shop.price", f"{site}/shop/price.py", "src/shop/price.py") in run.elsewhere


async def test_an_interpreter_that_does_not_exist_is_a_broken_environment(project):
    import pytest
    from whimbrel.sandbox.base.errors import EnvironmentBroken

    made = await project({"test_a.py": "def test_a(): pass\n"}, python=sys.executable + "-gone")
    with pytest.raises(EnvironmentBroken, match="does not start"):
        await made.runner.run(purpose="baseline")
