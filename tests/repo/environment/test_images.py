"""Container images made for a project, when this machine has no environment for it."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from whimbrel.app.repo.environment import find_recipe, plan_environment
from whimbrel.sandbox.base.errors import EnvironmentBroken
from whimbrel.sandbox.daemon import ask, connect
from whimbrel.sandbox.images import usable_image

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SHOP = {
    "src/shop/__init__.py": "import iniconfig\n\n\ndef total(prices):\n    return sum(prices)\n",
    "tests/test_shop.py": "import shop\n\n\ndef test_total():\n    assert shop.total([1, 2]) == 3\n",
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\ndependencies = ["iniconfig"]\n',
}


@pytest.fixture
async def used_images():
    """Names of images a test had made; removed after it."""
    names: list[str] = []
    yield names
    daemon = await connect()
    for name in names:
        await ask("removing the image", daemon.api.remove_image, name, force=True)
    daemon.close()


def never_built_before() -> dict[str, str]:
    """The project with a requirement that is always met and was never written before."""
    requirement = f"iniconfig>=0.{secrets.randbelow(10**9)}"
    return {**SHOP, "pyproject.toml": SHOP["pyproject.toml"].replace('"iniconfig"', f'"{requirement}"')}


async def test_a_layer_with_the_declared_dependencies_is_made_once_and_runs_the_tests(
    make_repository, on_stage, used_images
):
    repository = make_repository(never_built_before())
    lines: list[str] = []
    async with on_stage(repository, "docker", allow_build=True, report=lines.append) as stage:
        assert stage.environment.origin == "image"
        assert stage.environment.version >= (3, 8, 0)
        assert stage.environment.image is not None and stage.environment.mounts == ()
        used_images.append(stage.environment.image)
        assert "1 passed" in (await stage.tests()).text()
    first = stage.environment.image
    assert any("building" in line for line in lines)
    lines.clear()
    again = await plan_environment(
        repository,
        "docker",
        python=None,
        environ={"PATH": ""},
        recipe=None,
        allow_build=True,
        report=lines.append,
    )
    assert again.image == first
    assert lines == []


async def test_without_leave_to_build_the_missing_interpreter_is_named(make_repository, on_stage):
    with pytest.raises(EnvironmentBroken, match="no Python interpreter that could run"):
        async with on_stage(make_repository(SHOP), "docker"):
            pass


async def test_an_image_too_old_for_the_project_is_named(make_repository, on_stage):
    text = SHOP["pyproject.toml"] + 'requires-python = ">=3.99"\n'
    with pytest.raises(
        EnvironmentBroken, match=r"the image's Python is 3\.\d+\.\d+; the project needs >=3\.99"
    ):
        async with on_stage(make_repository({**SHOP, "pyproject.toml": text}), "docker", allow_build=True):
            pass


async def test_a_trusted_recipes_dockerfile_is_built_and_used(make_repository, on_stage, used_images):
    base = (await usable_image(None, allow_build=True)).reference
    repository = make_repository(
        {
            "shop.py": "VALUE = 1\n",
            "test_shop.py": "import unittest\n\nimport shop\n\n\nclass T(unittest.TestCase):\n    pass\n",
            "whimbrel.toml": 'dockerfile = "ci/Dockerfile"\n',
            "ci/Dockerfile": f"FROM {base}\nRUN echo built-for-tests > /marker\n",
        }
    )
    recipe = find_recipe(repository)
    async with on_stage(repository, "docker", recipe=recipe) as stage:
        assert await stage.python("print(open('/marker').read())") == "built-for-tests"
        assert stage.environment.image is not None
        assert stage.environment.image.startswith("whimbrel/project:")
        used_images.append(stage.environment.image)


@pytest.fixture
def foreign_image(used_images, real_python, copy_python, tmp_path):
    """An image of another system: no libexpat for this machine's Python, but a Python of its own."""

    async def make() -> str:
        base = (await usable_image(None, allow_build=True)).reference
        context = tmp_path / "context"
        copy_python(real_python, context / "python")
        (context / "python/bin/python3").symlink_to(real_python.name)
        (context / "Dockerfile").write_text(
            f"FROM {base}\nCOPY python /usr/local/own-python\n"
            "ENV PATH=/usr/local/own-python/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
            "ENV LD_LIBRARY_PATH=/usr/local/own-python/lib\n"
            "RUN rm -f /usr/lib/*-linux-gnu/libexpat*\nLABEL whimbrel.suite=elsewhere\n"
        )
        name = f"whimbrel/test-foreign:{secrets.token_hex(4)}"
        process = await asyncio.create_subprocess_exec("docker", "build", "-q", "-t", name, str(context))
        assert await process.wait() == 0
        used_images.insert(0, name)
        return name

    return make


async def test_where_this_machines_python_does_not_start_the_images_own_takes_its_place(
    make_repository, make_venv, on_stage, foreign_image, used_images
):
    image = await foreign_image()
    code = "def total(prices):\n    return sum(prices)\n"
    metadata = '[project]\nname = "shop"\nversion = "1"\n'
    repository = make_repository({**SHOP, "src/shop/__init__.py": code, "pyproject.toml": metadata})
    make_venv(repository / ".venv", python="/usr/bin/python3")
    with pytest.raises(EnvironmentBroken, match=r"needs the shared library libexpat\.so\.1"):
        async with on_stage(repository, "docker", image=image):
            pass
    async with on_stage(repository, "docker", image=image, allow_build=True) as stage:
        used_images.insert(0, stage.environment.image)
        assert stage.environment.origin == "image"
        assert any("libexpat" in note for note in stage.environment.notes)
        assert "1 passed" in (await stage.tests()).text()
