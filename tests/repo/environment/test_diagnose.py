"""A broken environment is told from a bug, from real test runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from whimbrel.app.repo.environment import Recipe, diagnose, environment_causes
from whimbrel.app.repo.environment.causes import CauseFinder, Failure
from whimbrel.app.repo.environment.model import ProjectEnvironment
from whimbrel.app.repo.testing.report import TraceFrame

GOOD_TEST = "def test_fine():\n    pass\n"


@pytest.fixture
def verdict(make_repository, shared_venv, on_stage, run_tests):
    """Runs the tests of a project and diagnoses the outcome; None means "may be repaired"."""

    async def judge(files, *, kind="host", recipe=None):
        repository = make_repository(files)
        async with on_stage(repository, kind, recipe=recipe, python=str(shared_venv)) as stage:
            run = await run_tests(stage)
            return diagnose(run, stage.workspace, stage.environment)

    return judge


async def test_a_missing_distribution_is_named(verdict):
    error = await verdict({"test_a.py": "import nosuchlibrary\n\n\ndef test_a():\n    pass\n"})
    assert error is not None
    assert "module nosuchlibrary missing" in error.message
    assert error.exit_code == 11
    assert "install it in" in error.hint


async def test_a_missing_distribution_in_the_conftest_is_named(verdict):
    error = await verdict({"conftest.py": "import nosuchlibrary\n", "test_a.py": GOOD_TEST})
    assert error is not None
    assert "nosuchlibrary" in error.message


async def test_a_misspelt_import_in_the_code_under_repair_is_a_bug(verdict):
    files = {"shop.py": "import colections\n", "test_shop.py": "import shop\n\n\ndef test_a():\n    pass\n"}
    assert await verdict(files) is None


async def test_an_import_of_something_the_repository_should_hold_is_a_bug(verdict):
    files = {
        "shop/__init__.py": "from shop.helpers import add\n",
        "test_shop.py": "import shop\n\n\ndef test_a():\n    pass\n",
    }
    assert await verdict(files) is None


async def test_a_failing_assertion_is_a_bug(verdict):
    assert await verdict({"test_a.py": "def test_a():\n    assert 1 == 2\n"}) is None


async def test_passing_tests_are_nothing_to_diagnose(verdict):
    assert await verdict({"test_a.py": GOOD_TEST}) is None


async def test_a_bug_beside_a_missing_module_is_still_repaired_and_the_cause_is_known(
    make_repository, shared_venv, on_stage, run_tests
):
    repository = make_repository(
        {"test_a.py": "import nosuchlibrary\n", "test_b.py": "def test_b():\n    assert 1 == 2\n"}
    )
    async with on_stage(repository, "host", python=str(shared_venv)) as stage:
        run = await run_tests(stage)
        if run.report.failing():
            assert diagnose(run, stage.workspace, stage.environment) is None
        causes = environment_causes(run, stage.workspace, stage.environment)
    assert [cause.missing for cause in causes.values()] == ["module nosuchlibrary"]


async def test_a_missing_program_is_named(verdict):
    test = "import subprocess\n\n\ndef test_a():\n    subprocess.run(['git', '--version'], check=True)\n"
    error = await verdict({"test_a.py": test}, recipe=Recipe(source="x", env={"PATH": "/nonexistent"}))
    assert error is not None
    assert "program git missing" in error.message


async def test_a_file_the_code_fails_to_open_is_a_bug(verdict):
    assert await verdict({"test_a.py": "def test_a():\n    open('prices')\n"}) is None


@pytest.mark.bwrap
async def test_a_missing_service_and_the_missing_network_are_named(verdict):
    test = (
        "import socket\n\n\n"
        "def test_queue():\n"
        "    try:\n        socket.create_connection(('127.0.0.1', 5672), timeout=5)\n"
        "    except OSError as error:\n"
        "        raise ConnectionError(f'localhost:5672: {error}') from error\n\n\n"
        "def test_lookup():\n    socket.getaddrinfo('service.invalid', 80)\n"
    )
    error = await verdict({"test_a.py": test}, kind="bwrap")
    assert error is not None
    assert "a RabbitMQ service on port 5672" in error.message
    assert "the network" in error.message


async def test_a_fixture_of_a_missing_plugin_is_named(verdict):
    error = await verdict({"test_a.py": "def test_a(mocker):\n    pass\n"})
    assert error is not None
    assert "pytest plugin pytest-mock (fixture mocker)" in error.message


async def test_a_misspelt_fixture_is_a_bug(verdict):
    assert await verdict({"test_a.py": "def test_a(shopp):\n    pass\n"}) is None


async def test_a_plugin_the_configuration_requires_is_named(verdict):
    error = await verdict(
        {"pytest.ini": "[pytest]\nrequired_plugins = pytest-shop\n", "test_a.py": GOOD_TEST}
    )
    assert error is not None
    assert "pytest-shop" in error.message


async def test_an_option_of_a_missing_plugin_is_named(make_repository, shared_venv, on_stage, run_tests):
    repository = make_repository({"test_a.py": GOOD_TEST})
    async with on_stage(repository, "host", python=str(shared_venv)) as stage:
        run = await run_tests(stage, f"true && {stage.environment.python} -m pytest --reruns=2")
        error = diagnose(run, stage.workspace, stage.environment)
    assert error is not None
    assert "pytest plugin pytest-rerunfailures (option --reruns)" in error.message


async def test_a_missing_variable_is_named_with_the_policy(verdict):
    error = await verdict({"test_a.py": "import os\n\n\ndef test_a():\n    os.environ['DATABASE_URL']\n"})
    assert error is not None
    assert "environment variable DATABASE_URL" in error.message
    assert "scrubbed" in error.hint


async def test_a_missing_key_of_an_ordinary_dictionary_is_a_bug(verdict):
    assert await verdict({"test_a.py": "def test_a():\n    {}['DATABASE_URL']\n"}) is None


@pytest.fixture
def finder(tmp_path):
    environment = ProjectEnvironment(
        python="/p/bin/python",
        version=(3, 8, 18),
        origin=".venv",
        modules=("shop",),
        declared=("pyyaml", "attrs"),
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "helpers.py").touch()
    return CauseFinder(tmp_path, environment)


def missing(finder, message, exception="ModuleNotFoundError", frames=()):
    cause = finder.cause(Failure("t", exception, message, tuple(frames)))
    return cause.missing if cause else None


def test_modules_newer_than_the_projects_python_are_its_lack(finder):
    assert missing(finder, "No module named 'tomllib'") == "the standard library's module tomllib"


def test_removed_modules_of_the_standard_library_are_named_with_the_version(tmp_path):
    environment = ProjectEnvironment(python="p", version=(3, 13, 0), origin="PATH")
    cause = CauseFinder(tmp_path, environment).cause(
        Failure("t", "ModuleNotFoundError", "No module named 'distutils'")
    )
    assert cause is not None
    assert cause.missing == "the standard library's module distutils, removed in Python 3.12"


def test_helpers_of_the_tests_belong_to_the_repository(finder):
    assert missing(finder, "No module named 'helpers.extra'") is None


def test_a_name_like_a_declared_distribution_is_the_environment(finder):
    assert missing(finder, "No module named 'attrs'") == "module attrs"


def test_a_package_that_lacks_its_own_dependency_is_the_environment_even_when_it_looks_misspelt(finder):
    inside = TraceFrame("/venv/lib/site-packages/web/__init__.py", 1, "<module>", in_repository=False)
    assert missing(finder, "No module named 'yamll'", frames=[inside]) == "module yamll"
    own = replace(inside, path="shop/__init__.py", in_repository=True)
    assert missing(finder, "No module named 'jsonn'", frames=[own]) is None


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (
            "libGL.so.1: cannot open shared object file: No such file or directory",
            "shared library libGL.so.1",
        ),
        (
            "/lib/libc.so.6: version `GLIBC_2.38' not found (required by /x/site-packages/a.so)",
            "a C library with GLIBC_2.38",
        ),
        (
            "/x/site-packages/a/_b.so: undefined symbol: PyFoo",
            "symbol PyFoo wanted by /x/site-packages/a/_b.so",
        ),
    ],
)
def test_binary_trouble_is_the_environment(finder, message, named):
    assert missing(finder, message, "ImportError") == named


def test_an_unchecked_out_submodule_is_named(finder, tmp_path):
    (tmp_path / ".gitmodules").write_text('[submodule "data"]\n\tpath = data\n\turl = ../data\n')
    text = "[Errno 2] No such file or directory: 'data/sample.csv'"
    assert missing(finder, text, "FileNotFoundError") == "submodule data"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "other.csv").touch()
    assert missing(finder, text, "FileNotFoundError") is None
