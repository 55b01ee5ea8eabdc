"""Environments really working, or clearly not, inside each kind of sandbox."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from whimbrel.app.repo.environment import Recipe, start_services
from whimbrel.sandbox.base.errors import EnvironmentBroken

SHOP = {
    "src/shop/__init__.py": "def total(prices):\n    return sum(prices)\n",
    "tests/test_shop.py": "import shop\n\n\ndef test_total():\n    assert shop.total([1, 2]) == 3\n",
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n',
}


async def test_a_project_with_its_own_environment_runs_its_tests(make_repository, make_venv, on_stage, kind):
    repository = make_repository(SHOP)
    make_venv(repository / ".venv")
    async with on_stage(repository, kind) as stage:
        result = await stage.tests()
        assert "1 passed" in result.text()
        assert await stage.workspace.diff() == b""
        assert stage.environment.origin == ".venv"
        assert stage.environment.version == sys.version_info[:3]


async def test_an_environment_elsewhere_runs_them_too(make_repository, make_venv, on_stage, kind, tmp_path):
    repository = make_repository(SHOP)
    venv = make_venv(tmp_path / "environments" / "shop")
    async with on_stage(repository, kind, python=str(venv)) as stage:
        assert "1 passed" in (await stage.tests()).text()


async def test_uncommitted_changes_are_what_is_tested(make_repository, make_venv, on_stage, make_files, kind):
    repository = make_repository(SHOP)
    make_venv(repository / ".venv")
    make_files(repository, {"src/shop/__init__.py": "def total(prices):\n    return 0\n", "src/extra.py": ""})
    before = (repository / "src/shop/__init__.py").read_bytes()
    async with on_stage(repository, kind) as stage:
        assert "1 failed" in (await stage.tests()).text()
        assert "extra" in stage.environment.modules
    assert (repository / "src/shop/__init__.py").read_bytes() == before


EDITABLE_FORMS = {
    "path entry": ("__editable__.shop-1.pth", "{repository}/src\n"),
    "finder hook": (
        "__editable___shop_1_finder.py",
        "import sys, importlib.util\n"
        "from importlib.machinery import ModuleSpec, PathFinder\n"
        "MAPPING = {{'shop': '{repository}/src/shop'}}\n"
        "NAMESPACES = {{}}\n"
        "class _Finder:\n"
        "    @classmethod\n"
        "    def find_spec(cls, name, path=None, target=None):\n"
        "        if name in MAPPING:\n"
        "            return importlib.util.spec_from_file_location(name, MAPPING[name] + '/__init__.py',\n"
        "                submodule_search_locations=[MAPPING[name]])\n"
        "def install():\n"
        "    sys.meta_path.append(_Finder)\n",
    ),
}


@pytest.mark.parametrize("form", EDITABLE_FORMS)
async def test_an_editable_install_of_the_project_does_not_lead_back_to_the_original(
    make_repository, make_venv, on_stage, make_files, kind, form
):
    repository = make_repository(SHOP)
    venv = make_venv(repository / ".venv")
    (site,) = venv.glob("lib/python3*/site-packages")
    name, text = EDITABLE_FORMS[form]
    (site / name).write_text(text.format(repository=repository))
    if name.endswith("finder.py"):
        (site / "__editable__.shop-1.pth").write_text(f"import {name[:-3]}; {name[:-3]}.install()\n")
    async with on_stage(repository, kind) as stage:
        assert stage.environment.editable
        await stage.sandbox.write(
            f"{stage.sandbox.spec.workdir}/src/shop/__init__.py", b"def total(prices):\n    return 'copy'\n"
        )
        assert await stage.python("import shop; print(shop.total([]))") == "copy"
        assert "1 failed" in (await stage.tests()).text()


async def test_a_copy_of_the_project_installed_for_good_does_not_hide_the_one_under_repair(
    make_repository, make_venv, on_stage, make_files, kind
):
    repository = make_repository(SHOP)
    venv = make_venv(repository / ".venv")
    (site,) = venv.glob("lib/python3*/site-packages")
    make_files(site, {"shop/__init__.py": "def total(prices):\n    return 'installed'\n"})
    async with on_stage(repository, kind) as stage:
        assert "1 passed" in (await stage.tests()).text()


async def test_code_that_insists_on_the_original_is_a_broken_environment(
    make_repository, make_venv, on_stage, tmp_path
):
    repository = make_repository(SHOP)
    venv = make_venv(repository / ".venv")
    (site,) = venv.glob("lib/python3*/site-packages")
    hook = f"import sys; sys.path.insert(0, {str(repository / 'src')!r})\n"
    (site / "insist.pth").write_text(hook)
    with pytest.raises(EnvironmentBroken, match=r"module shop is imported from .*/project/src/shop"):
        async with on_stage(repository, "host"):
            pass


async def test_a_virtual_environment_on_an_unreadable_base_still_runs(
    make_repository, make_venv, on_stage, isolating_kind, real_python, copy_python, tmp_path
):
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    base = hidden / "python"
    copy_python(real_python, base)
    base.chmod(0o700)
    (base / "lib").chmod(0o700)
    repository = make_repository(SHOP)
    venv = make_venv(tmp_path / "locked" / "venv", python=str(base / "bin" / real_python.name))
    (tmp_path / "locked").chmod(0o700)
    venv.chmod(0o700)
    async with on_stage(repository, isolating_kind, python=str(venv)) as stage:
        assert "1 passed" in (await stage.tests()).text()
        assert await stage.python("import sys; print(sys.base_prefix)") == str(base)
        if os.geteuid() == 0:
            # Only root runs the sandbox as somebody else, who then needs the copy.
            assert any("a readable copy" in note for note in stage.environment.notes)


async def test_a_link_in_a_home_directory_leads_to_the_interpreter(
    make_repository, make_venv, on_stage, isolating_kind, real_python, copy_python, tmp_path
):
    """The shape uv and friends leave: bin link -> alias directory -> real installation."""
    installs = tmp_path / "share" / "pythons"
    copy_python(real_python, installs / "cpython-3.x.y")
    (installs / "cpython-3.x").symlink_to("cpython-3.x.y")
    local = tmp_path / "local-bin"
    local.mkdir()
    (local / real_python.name).symlink_to(installs / "cpython-3.x" / "bin" / real_python.name)
    repository = make_repository(SHOP)
    make_venv(repository / ".venv", python=str(local / real_python.name))
    async with on_stage(repository, isolating_kind) as stage:
        assert "1 passed" in (await stage.tests()).text()


async def test_an_interpreter_the_sandbox_cannot_start_is_named_with_its_library(
    make_repository, make_venv, on_stage, tmp_path
):
    repository = make_repository(SHOP)
    make_venv(repository / ".venv")
    async with on_stage(repository, "host", check=False) as stage:
        from whimbrel.app.repo.environment.verify import interpreter_failure

        shell = "echo 'python: error while loading shared libraries: libfoo.so.1: cannot open' >&2; exit 127"
        failed = await stage.run("/bin/sh", "-c", shell)
        error = interpreter_failure(stage.environment, failed, stage.sandbox)
    assert "needs the shared library libfoo.so.1" in error.message


async def test_pytest_that_cannot_be_imported_is_a_broken_environment(
    make_repository, make_venv, on_stage, make_files, kind
):
    repository = make_repository(SHOP)
    venv = make_venv(repository / ".venv")
    (site,) = venv.glob("lib/python3*/site-packages")
    shutil.rmtree(site / "pluggy")
    with pytest.raises(EnvironmentBroken, match=r"pytest cannot be imported .*pluggy"):
        async with on_stage(repository, kind):
            pass


@pytest.mark.slow
@pytest.mark.parametrize("minor", [8, 13])
async def test_old_and_new_pythons_get_their_dependencies_and_run_the_tests(
    make_repository, on_stage, python_of, minor, tmp_path
):
    python = python_of(minor)
    if python is None:
        pytest.skip(f"no Python 3.{minor} on this machine")
    text = SHOP["pyproject.toml"] + 'dependencies = ["iniconfig"]\n'
    repository = make_repository({**SHOP, "pyproject.toml": text})
    lines: list[str] = []
    async with on_stage(repository, "bwrap", python=python, allow_build=True, report=lines.append) as stage:
        assert stage.environment.version[:2] == (3, minor)
        assert "1 passed" in (await stage.tests()).text()
    assert lines == ["installing the project's test dependencies (pyproject.toml) once"]
    async with on_stage(repository, "host", python=python, allow_build=True, report=lines.append) as stage:
        assert "1 passed" in (await stage.tests()).text()
    assert len(lines) == 1


async def test_dependencies_that_cannot_be_installed_are_named(
    make_repository, make_venv, on_stage, tmp_path
):
    text = SHOP["pyproject.toml"] + 'dependencies = ["whimbrel-no-such-distribution==99"]\n'
    repository = make_repository({**SHOP, "pyproject.toml": text})
    bare = str(make_venv(tmp_path / "bare", with_pytest=False))
    with pytest.raises(EnvironmentBroken, match=r"cannot be installed: .*whimbrel-no-such-distribution"):
        async with on_stage(repository, "host", python=bare, allow_build=True):
            pass


async def test_when_nothing_can_be_installed_an_environment_with_pytest_is_better_than_none(
    make_repository, make_venv, on_stage
):
    text = SHOP["pyproject.toml"] + 'dependencies = ["whimbrel-no-such-distribution==99"]\n'
    repository = make_repository({**SHOP, "pyproject.toml": text})
    make_venv(repository / ".venv")
    python = str(repository / ".venv/bin/python")
    async with on_stage(repository, "host", python=python, allow_build=True) as stage:
        assert stage.environment.missing == ("whimbrel-no-such-distribution",)
        assert any("cannot be installed" in note for note in stage.environment.notes)
        assert "1 passed" in (await stage.tests()).text()


async def test_build_outputs_reach_the_copy_and_never_the_patch(
    make_repository, make_venv, on_stage, make_files, kind
):
    repository = make_repository(
        {
            **SHOP,
            "src/shop/__init__.py": "from ._version import version\n\n\ndef total(prices):\n    return 3\n",
        }
    )
    make_venv(repository / ".venv")
    make_files(
        repository,
        {
            ".gitignore": ".venv/\n_version.py\n*.egg-info/\n",
            "src/shop/_version.py": "# generated\nversion = '1.2'\n",
            "src/shop.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: shop\nVersion: 1.2\n",
        },
    )
    async with on_stage(repository, kind) as stage:
        code = "import shop; from importlib.metadata import version; print(shop.version, version('shop'))"
        assert await stage.python(code) == "1.2 1.2"
        assert await stage.workspace.diff() == b""


async def test_a_recipes_setup_services_and_variables_are_obeyed(make_repository, make_venv, on_stage, kind):
    repository = make_repository(SHOP)
    make_venv(repository / ".venv")
    recipe = Recipe(
        source="whimbrel.toml",
        setup=("mkdir -p .venv-data; echo made > __pycache__marker; rm __pycache__marker",),
        services=("while :; do date > $HOME/alive; sleep 0.1; done",),
        env={"MODE": "test", "PYTHONPATH": "/extra"},
    )
    async with on_stage(repository, kind, recipe=recipe) as stage:
        assert await stage.python("import os; print(os.environ['MODE'])") == "test"
        path = stage.environment.env["PYTHONPATH"].split(":")
        assert path == [f"{stage.sandbox.spec.workdir}/src", "/extra"]
        (service,) = await start_services(recipe, stage.environment, stage.sandbox)
        try:
            waiting = "for i in 1 2 3 4 5 6 7 8; do test -s $HOME/alive && exit 0; sleep 0.2; done; exit 1"
            assert (await stage.run("/bin/sh", "-c", waiting)).exit_code == 0
        finally:
            await service.kill()


async def test_a_failing_setup_command_is_named(make_repository, make_venv, on_stage):
    repository = make_repository(SHOP)
    make_venv(repository / ".venv")
    recipe = Recipe(source="whimbrel.toml", setup=("echo no such target >&2; exit 2",))
    with pytest.raises(EnvironmentBroken, match="failed with exit code 2: no such target"):
        async with on_stage(repository, "host", recipe=recipe):
            pass


async def test_a_setup_that_changes_tracked_files_is_refused(make_repository, make_venv, on_stage):
    repository = make_repository(SHOP)
    make_venv(repository / ".venv")
    recipe = Recipe(source="whimbrel.toml", setup=("echo x >> pyproject.toml",))
    with pytest.raises(EnvironmentBroken, match=r"changed pyproject\.toml, which would be part"):
        async with on_stage(repository, "host", recipe=recipe):
            pass


async def test_a_service_that_does_not_start_is_named(make_repository, make_venv, on_stage):
    repository = make_repository(SHOP)
    make_venv(repository / ".venv")
    recipe = Recipe(source="whimbrel.toml", services=("echo port in use >&2; exit 3",))
    async with on_stage(repository, "host", recipe=recipe) as stage:
        with pytest.raises(EnvironmentBroken, match="exit code 3: port in use"):
            await start_services(recipe, stage.environment, stage.sandbox)


async def test_debians_own_python_is_used_where_it_is(make_repository, make_venv, on_stage, isolating_kind):
    system = "/usr/bin/python3"
    if not Path(system).exists():
        pytest.skip("this machine has no system Python")
    repository = make_repository(
        {
            "shop.py": "VALUE = 1\n",
            "test_shop.py": "import unittest, shop\n\nclass T(unittest.TestCase):\n"
            "    def test_value(self):\n        self.assertEqual(shop.VALUE, 1)\n",
        }
    )
    make_venv(repository / ".venv", python=system, with_pytest=False)
    async with on_stage(repository, isolating_kind) as stage:
        result = await stage.run(stage.environment.python, "-m", "unittest", "-v")
        assert result.exit_code == 0, result.text()
        assert "test_value" in result.text()
