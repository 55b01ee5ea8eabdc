"""What runs inside must be readable by old interpreters and must not disturb the project."""

from __future__ import annotations

import subprocess

import pytest
from whimbrel.app.repo.testing.inside.options import kept_options
from whimbrel.app.repo.testing.place import helper_files, inside_mount


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_every_helper_compiles_on_the_projects_interpreter(interpreter, version):
    folder = inside_mount().source
    script = "import sys; [compile(open(name).read(), name, 'exec') for name in sys.argv[1:]]"
    names = [str(folder / name) for name in helper_files()]
    done = subprocess.run(
        [interpreter(version, "nothing"), "-c", script, *names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(names) >= 9


async def test_project_modules_named_like_our_helpers_are_the_projects(project):
    made = await project(
        {
            "stream.py": "NAME = 'project'\n",
            "session.py": "NAME = 'project'\n",
            "limits.py": "NAME = 'project'\n",
            "launch.py": "NAME = 'project'\n",
            "test_a.py": """
                import launch, limits, session, stream
                def test_a(): assert {m.NAME for m in (launch, limits, session, stream)} == {"project"}
            """,
        }
    )
    run = await made.runner.run(purpose="baseline")
    assert [case.outcome.value for case in run.report.cases] == ["passed"]


async def test_the_origin_of_modules_is_told_without_running_them(project):
    made = await project(
        {"shop/__init__.py": "", "shop/price.py": "raise SystemExit\n", "src/bird/__init__.py": ""},
        import_roots=("src",),
    )
    found = await made.runner.module_origins(["shop.price", "json", "no_such_module"])
    assert found["shop.price"] == (str(made.workspace.root / "shop" / "price.py"), True)
    assert found["json"][0].endswith("json/__init__.py") and not found["json"][1]
    assert found["no_such_module"] == ("", False)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("-ra -q --strict-markers", "--strict-markers"),
        ("--cov src --cov-report=xml -m unit", "-m unit"),
        ("--cov --import-mode=importlib", "--import-mode=importlib"),
        ("-n auto --dist loadfile -p no:warnings", "-p no:warnings"),
        ("-n4 -vv -x --maxfail 3 tests", "tests"),
        ("-p xdist -p my.plugin", "-p my.plugin"),
        ("--doctest-modules -W error --ignore build", "--doctest-modules -W error --ignore build"),
        ("--timeout=30 --reruns 2 --randomly-seed=1", ""),
    ],
)
def test_default_options_that_decide_what_is_collected_stay(given, kept):
    assert kept_options(given.split()) == kept.split()
