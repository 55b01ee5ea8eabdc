"""`whimbrel config`: what is set, where it comes from, and changing it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .shared import settings_options

if TYPE_CHECKING:
    from ..config import Loaded

_repo = click.option(
    "--repo", type=click.Path(path_type=Path), default=".", help="The repository (default: here)."
)
_project = click.option("--project", is_flag=True, help="The repository's file instead of your own.")


@click.group()
def group() -> None:
    """Show and change settings."""


@group.command()
@click.option("--origin", is_flag=True, help="Where each value comes from.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@_repo
@settings_options
def show(origin: bool, as_json: bool, repo: Path, profile: str | None, overrides: tuple[str, ...]) -> None:
    """Every setting that counts here, after all layers.

    Layers, later ones win: defaults, your file, the repository's file (when trusted), the
    profile, WHIMBREL_SECTION__KEY variables, -c, options of a command.
    """
    from ..config.layers import flat

    loaded = _load(repo, profile, overrides)
    values = flat(loaded.settings)
    if as_json:
        shown: Any = values
        if origin:
            shown = {key: {"value": value, "origin": loaded.origin(key)} for key, value in values.items()}
        click.echo(json.dumps(shown, ensure_ascii=True, indent=1))
        return
    for key, value in values.items():
        line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        click.echo(f"{line}  # {loaded.origin(key)}" if origin else line)


@group.command()
@click.argument("key")
@_repo
@settings_options
def get(key: str, repo: Path, profile: str | None, overrides: tuple[str, ...]) -> None:
    """The value of one setting, or of a section, as JSON (texts as they are)."""
    from ...sandbox.base.errors import UsageError
    from ..config.keys import lookup, split_key

    table = _load(repo, profile, overrides).settings.model_dump(mode="json")
    try:
        value = lookup(table, split_key(key))
    except (KeyError, ValueError) as error:
        raise UsageError(f"there is no setting {key}", hint="`whimbrel config show` lists them") from error
    click.echo(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


@group.command("set")
@click.argument("key")
@click.argument("value")
@_project
@_repo
def set_(key: str, value: str, project: bool, repo: Path) -> None:
    """Set one setting in your file; comments, order and unknown keys stay as they are."""
    from ..config.editing import set_value

    path = _file(project, repo)
    made = set_value(path, key, value)
    click.echo(f"{key} = {json.dumps(made, ensure_ascii=False)} in {path}")


@group.command()
@click.argument("key")
@_project
@_repo
def unset(key: str, project: bool, repo: Path) -> None:
    """Take one setting out of your file."""
    from ..config.editing import unset_value

    path = _file(project, repo)
    click.echo(f"{key} taken out of {path}" if unset_value(path, key) else f"{key} is not set in {path}")


@group.command()
@_project
@_repo
def restore(project: bool, repo: Path) -> None:
    """Put the version of the file before the last change back."""
    from ..config.editing import restore_backup

    path = _file(project, repo)
    replaced = restore_backup(path)
    click.echo(f"restored {path}; what was there is in {replaced}")


@group.command()
@_project
@_repo
def path(project: bool, repo: Path) -> None:
    """Where the settings file lies (it need not exist)."""
    click.echo(str(_file(project, repo)))


@group.command()
def schema() -> None:
    """The JSON schema of a settings file."""
    from ..config.model import schema as made

    click.echo(json.dumps(made(), indent=1, sort_keys=True))


def _load(repo: Path, profile: str | None, overrides: tuple[str, ...]) -> Loaded:
    from ..config import load_settings

    loaded = load_settings(repo, profile=profile, overrides=overrides)
    for note in loaded.notes:
        click.echo(f"note: {note}", err=True)
    return loaded


def _file(project: bool, repo: Path) -> Path:
    from ...sandbox.base.errors import UsageError
    from ..config.layers import PROJECT_FILE, project_top, user_file

    if not project:
        return user_file()
    top = project_top(repo)
    if top is None:
        raise UsageError(f"{repo} lies in no git repository", hint="give --repo")
    file = top / PROJECT_FILE
    if not file.resolve().is_relative_to(top.resolve()):
        raise UsageError(f"{file} leads out of the repository: it is neither read nor changed")
    return file
