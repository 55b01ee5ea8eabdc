"""Recipes are read strictly, and trust follows their content."""

from __future__ import annotations

import pytest
from whimbrel.app.repo.environment import find_recipe, load_configuration
from whimbrel.app.repo.environment.recipe import read_devcontainer
from whimbrel.sandbox.base.errors import ConfigError

FULL = """
setup = ["make data", "touch ready"]
test = "python -m pytest -q"
services = "redis-server --port 7000"
network = true
image = "registry.example/app:1"
[env]
MODE = "test"
[timeouts]
run = 300
test = 2.5
"""


def test_every_key_of_a_recipe_is_understood(make_repository):
    recipe = find_recipe(make_repository({"whimbrel.toml": FULL}))
    assert recipe is not None
    assert recipe.source == "whimbrel.toml"
    assert recipe.setup == ("make data", "touch ready")
    assert recipe.test == ("python", "-m", "pytest", "-q")
    assert recipe.services == ("redis-server --port 7000",)
    assert recipe.env == {"MODE": "test"}
    assert (recipe.run_timeout_s, recipe.test_timeout_s) == (300, 2.5)
    assert recipe.network
    assert recipe.image == "registry.example/app:1"


def test_a_test_command_that_needs_a_shell_gets_one(make_repository):
    recipe = find_recipe(make_repository({"whimbrel.toml": 'test = "cd src && pytest"\n'}))
    assert recipe is not None
    assert recipe.test == ("/bin/sh", "-c", "cd src && pytest")


def test_the_table_of_pyproject_is_a_recipe_too(make_repository):
    recipe = find_recipe(make_repository({"pyproject.toml": '[tool.whimbrel]\ntest = ["pytest", "-x"]\n'}))
    assert recipe is not None
    assert recipe.test == ("pytest", "-x")
    assert recipe.source == "pyproject.toml"


def test_a_repository_without_a_recipe_has_nothing_to_trust(make_repository):
    configuration = load_configuration(make_repository({"pyproject.toml": "[project]\nname = 'x'\n"}))
    assert configuration.recipe is None
    assert not configuration.found
    assert configuration.digest == ""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('tset = "pytest"', "whimbrel.toml: unknown key tset"),
        ("setup = 3", "whimbrel.toml: setup must be a string or a list of strings, not int"),
        ("setup = [1]", "whimbrel.toml: setup must be a string or a list of strings"),
        ("network = 1", "whimbrel.toml: network must be true or false"),
        ("[env]\nDEBUG = 1", "whimbrel.toml: env.DEBUG must be a string, not int"),
        ("[timeouts]\nrun = -1", "whimbrel.toml: timeouts.run must be a positive number of seconds"),
        ("[timeouts]\nboth = 1", "whimbrel.toml: unknown key timeouts.both"),
        ("test = 'echo \"'", "whimbrel.toml: test cannot be split"),
        ("image = ''", "whimbrel.toml: image must be a non-empty string"),
        ('image = "a"\ndockerfile = "b"', "whimbrel.toml: image and dockerfile exclude each other"),
        ("setup = [", "whimbrel.toml is not valid TOML"),
    ],
)
def test_mistakes_name_the_file_and_the_key(make_repository, text, complaint):
    with pytest.raises(ConfigError) as caught:
        find_recipe(make_repository({"whimbrel.toml": text}))
    assert complaint in caught.value.message


def test_mistakes_in_pyproject_name_the_whole_key(make_repository):
    with pytest.raises(ConfigError, match=r"pyproject\.toml: unknown key tool\.whimbrel\.foo"):
        find_recipe(make_repository({"pyproject.toml": "[tool.whimbrel]\nfoo = 1\n"}))


def test_changing_the_recipe_changes_what_is_trusted_and_other_edits_do_not(make_repository, make_files):
    repository = make_repository(
        {"pyproject.toml": '[project]\nversion = "1"\n[tool.whimbrel]\ntest = "a"\n'}
    )
    first = load_configuration(repository).digest
    make_files(repository, {"pyproject.toml": '[project]\nversion = "2"\n[tool.whimbrel]\ntest = "a"\n'})
    assert load_configuration(repository).digest == first
    make_files(repository, {"pyproject.toml": '[project]\nversion = "2"\n[tool.whimbrel]\ntest = "b"\n'})
    assert load_configuration(repository).digest != first


def test_a_named_dockerfile_is_part_of_what_is_trusted(make_repository, make_files):
    repository = make_repository({"whimbrel.toml": 'dockerfile = "Dockerfile"\n', "Dockerfile": "FROM a\n"})
    first = load_configuration(repository)
    assert first.files == ("whimbrel.toml", "Dockerfile")
    assert "whimbrel.toml and Dockerfile found and ignored" in first.ignored_note()
    make_files(repository, {"Dockerfile": "FROM b\n"})
    assert load_configuration(repository).digest != first.digest


def test_a_dockerfile_outside_the_repository_is_refused(make_repository):
    repository = make_repository({"whimbrel.toml": 'dockerfile = "../Dockerfile"\n'})
    with pytest.raises(ConfigError, match="outside the repository"):
        load_configuration(repository)


def test_a_devcontainer_with_comments_and_trailing_commas_is_read(make_repository):
    text = '{\n  // why: "quoted"\n  "build": {"dockerfile": "Dockerfile", "context": "..",}, /* end */\n}\n'
    repository = make_repository(
        {
            "whimbrel.toml": 'devcontainer = ".devcontainer/devcontainer.json"\n',
            ".devcontainer/devcontainer.json": text,
            ".devcontainer/Dockerfile": "FROM scratch\n",
        }
    )
    found = read_devcontainer(repository, ".devcontainer/devcontainer.json")
    assert found.dockerfile == ".devcontainer/Dockerfile"
    assert found.context == "."
    assert ".devcontainer/Dockerfile" in load_configuration(repository).files


def test_a_devcontainer_with_an_image_names_it(make_repository):
    repository = make_repository({"dev.json": '{"image": "example/app:1 // not a comment"}'})
    assert read_devcontainer(repository, "dev.json").image == "example/app:1 // not a comment"
