"""Which interpreter is chosen, and that nothing of the repository runs while choosing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from whimbrel.app.repo.environment import plan_environment
from whimbrel.app.repo.environment.interpreter import candidates
from whimbrel.sandbox.base.errors import EnvironmentBroken, UsageError

FILES = {
    "shop.py": "VALUE = 1\n",
    "test_shop.py": "import shop\n\ndef test_value():\n    assert shop.VALUE == 1\n",
}


async def planned(repository: Path, environ: dict[str, str], **options):
    settings = {"python": None, "recipe": None, "allow_build": False, "report": lambda line: None, **options}
    return await plan_environment(repository, settings.pop("kind", "host"), environ=environ, **settings)


def bare_environ(real_python: Path) -> dict[str, str]:
    return {"PATH": str(real_python.parent), "HOME": "/nonexistent"}


async def test_the_repositorys_own_environment_wins_over_path(make_repository, make_venv, real_python):
    repository = make_repository(FILES)
    make_venv(repository / ".venv")
    environment = await planned(repository, bare_environ(real_python))
    assert environment.python == str(repository / ".venv/bin/python")
    assert environment.origin == ".venv"
    assert environment.version == sys.version_info[:3]


async def test_an_active_environment_wins_over_the_repositorys_own(
    make_repository, make_venv, real_python, tmp_path
):
    repository = make_repository(FILES)
    make_venv(repository / ".venv")
    active = make_venv(tmp_path / "active")
    environment = await planned(repository, {**bare_environ(real_python), "VIRTUAL_ENV": str(active)})
    assert environment.python == str(active / "bin/python")
    assert environment.origin == "VIRTUAL_ENV"


async def test_the_environment_whimbrel_runs_from_never_wins_over_the_repositorys_own(
    make_repository, make_venv, real_python, tmp_path, monkeypatch
):
    repository = make_repository(FILES)
    make_venv(repository / ".venv")
    own = make_venv(tmp_path / "whimbrel-own")
    monkeypatch.setattr(sys, "prefix", str(own))
    monkeypatch.setattr(sys, "base_prefix", "/somewhere/else")
    environ = {
        "PATH": f"{own / 'bin'}:{real_python.parent}",
        "VIRTUAL_ENV": str(own),
        "HOME": "/nonexistent",
    }
    environment = await planned(repository, environ)
    assert environment.origin == ".venv"


async def test_the_environment_whimbrel_runs_from_is_the_last_resort(
    make_repository, make_venv, tmp_path, monkeypatch
):
    repository = make_repository(FILES)
    own = make_venv(tmp_path / "whimbrel-own")
    monkeypatch.setattr(sys, "prefix", str(own))
    monkeypatch.setattr(sys, "base_prefix", "/somewhere/else")
    environ = {"PATH": str(own / "bin"), "VIRTUAL_ENV": str(own), "HOME": "/nonexistent"}
    environment = await planned(repository, environ)
    assert environment.python == str(own / "bin/python")


async def test_a_named_python_beats_everything(make_repository, make_venv, real_python, tmp_path):
    repository = make_repository(FILES)
    make_venv(repository / ".venv")
    named = make_venv(tmp_path / "named")
    environment = await planned(repository, bare_environ(real_python), python=str(named))
    assert environment.python == str(named / "bin/python")
    assert environment.origin == "--python"


def test_a_named_python_that_does_not_exist_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="--python /no/such/python"):
        list(candidates(tmp_path, python="/no/such/python", environ={}, own_prefix=None))


async def test_an_environment_without_pytest_is_passed_over_for_one_that_has_it(
    make_repository, make_venv, real_python, tmp_path
):
    repository = make_repository(FILES)
    make_venv(repository / ".venv", with_pytest=False)
    useful = make_venv(tmp_path / "useful")
    environment = await planned(repository, {"PATH": str(useful / "bin"), "HOME": "/nonexistent"})
    assert environment.python == str(useful / "bin/python3")


async def test_when_no_environment_has_pytest_the_error_says_so(make_repository, make_venv, tmp_path):
    repository = make_repository(FILES)
    make_venv(repository / ".venv", with_pytest=False)
    with pytest.raises(EnvironmentBroken, match=r"\.venv/bin/python lacks pytest"):
        await planned(repository, {"PATH": "", "HOME": "/nonexistent"})


async def test_plain_unittest_projects_need_no_pytest(make_repository, make_venv):
    repository = make_repository(
        {
            "shop.py": "VALUE = 1\n",
            "tests/test_shop.py": "import unittest\n\nclass T(unittest.TestCase):\n    pass\n",
        }
    )
    make_venv(repository / ".venv", with_pytest=False)
    environment = await planned(repository, {"PATH": "", "HOME": "/nonexistent"})
    assert environment.origin == ".venv"
    assert not environment.needs_pytest


async def test_a_declared_dependency_that_is_missing_makes_an_environment_unusable(
    make_repository, make_venv
):
    repository = make_repository(
        {
            **FILES,
            "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\ndependencies = ["Left_Pad>=1"]\n',
        }
    )
    make_venv(repository / ".venv")
    environment = await planned(repository, {"PATH": "", "HOME": "/nonexistent"})
    assert environment.missing == ("left-pad",)
    assert any("lacks left-pad" in note for note in environment.notes)


async def test_an_environment_whose_base_is_gone_leaves_a_clear_note(make_repository, make_venv, real_python):
    repository = make_repository(FILES)
    venv = make_venv(repository / ".venv")
    for name in ("python", "python3"):
        (venv / "bin" / name).unlink()
        (venv / "bin" / name).symlink_to("/removed/python3/bin/python3")
    with pytest.raises(EnvironmentBroken, match="/removed/python3/bin/python3, which does not exist"):
        await planned(repository, {"PATH": "", "HOME": "/nonexistent"})


async def test_an_interpreter_shipped_by_the_repository_is_not_executed_outside_the_sandbox(
    make_repository, tmp_path
):
    proof = tmp_path / "executed"
    repository = make_repository(FILES)
    fake = repository / ".venv/bin/python"
    fake.parent.mkdir(parents=True)
    (repository / ".venv/pyvenv.cfg").write_text(f"home = {fake.parent}\nversion = 3.11.0\n")
    fake.write_text(f"#!/bin/sh\ntouch {proof}\n")
    fake.chmod(0o755)
    with pytest.raises(EnvironmentBroken, match="is a script of the repository"):
        await planned(repository, {"PATH": "", "HOME": "/nonexistent"})
    assert not proof.exists()


async def test_code_in_the_repositorys_environment_does_not_run_while_planning(
    make_repository, make_venv, tmp_path
):
    proof = tmp_path / "executed"
    repository = make_repository(FILES)
    venv = make_venv(repository / ".venv")
    (site,) = venv.glob("lib/python3*/site-packages")
    (site / "evil.pth").write_text(f"import pathlib; pathlib.Path({str(proof)!r}).touch()\n")
    environment = await planned(repository, {"PATH": "", "HOME": "/nonexistent"})
    assert environment.origin == ".venv"
    assert not proof.exists()


async def test_an_environment_made_of_copies_finds_its_base(make_repository, make_venv, real_python):
    repository = make_repository(FILES)
    venv = make_venv(repository / ".venv")
    for name in ("python", "python3"):
        link = venv / "bin" / name
        link.unlink()
        link.write_bytes(real_python.read_bytes())
        link.chmod(0o755)
    environment = await planned(repository, {"PATH": "", "HOME": "/nonexistent"}, kind="bwrap")
    assert environment.version == sys.version_info[:3]


async def test_entries_of_path_inside_the_repository_are_not_candidates(
    make_repository, make_venv, real_python
):
    repository = make_repository(FILES)
    tools = make_venv(repository / "tools-env")
    with pytest.raises(EnvironmentBroken, match="no Python interpreter"):
        await planned(repository, {"PATH": str(tools / "bin"), "HOME": "/nonexistent"})


async def test_a_python_too_old_for_the_project_is_passed_over(make_repository, make_venv, real_python):
    repository = make_repository(
        {**FILES, "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\nrequires-python = ">=3.99"\n'}
    )
    make_venv(repository / ".venv")
    with pytest.raises(EnvironmentBroken, match=r"the project needs >=3\.99"):
        await planned(repository, {"PATH": "", "HOME": "/nonexistent"})
