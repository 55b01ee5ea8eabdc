"""A repository's recipe: read strictly, hashed for trust, obeyed only when trusted."""

from __future__ import annotations

import hashlib
import json
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ....sandbox.base.errors import ConfigError
from ...paths import PROJECT_SETTINGS
from .model import Recipe

RECIPE_FILE: Final = "whimbrel.toml"


@dataclass(frozen=True)
class Configuration:
    """Everything a repository configures about how it is run, with the hash trust is bound to."""

    recipe: Recipe | None
    files: tuple[str, ...]
    """Repository-relative files that take part, for the question asked of the person."""
    digest: str
    """sha256 over their names and contents; empty when there is nothing to trust."""

    @property
    def found(self) -> bool:
        return bool(self.files)

    def ignored_note(self) -> str:
        """The line shown when it is found and not trusted."""
        return f"{' and '.join(self.files)} found and ignored: not trusted (read it, then pass --trust)"


def load_configuration(repository: Path) -> Configuration:
    """Reads the recipe and everything it leads to.

    Raises:
        ConfigError: unknown key or wrong type; the message names the file and the key.
    """
    recipe = find_recipe(repository)
    files: list[str] = []
    contents: dict[str, bytes] = {}
    if (repository / PROJECT_SETTINGS).exists():
        files.append(PROJECT_SETTINGS)
        contents[PROJECT_SETTINGS] = _read(repository, PROJECT_SETTINGS, "the repository")
    if recipe is not None:
        files.append(recipe.source)
        contents[recipe.source] = _recipe_bytes(repository, recipe.source)
        for name in (recipe.dockerfile, recipe.devcontainer):
            if name:
                files.append(name)
                contents[name] = _read(repository, name, recipe.source)
    if not files:
        return Configuration(None, (), "")
    if recipe is not None and recipe.devcontainer:
        container = read_devcontainer(repository, recipe.devcontainer)
        if container.dockerfile:
            files.append(container.dockerfile)
            contents[container.dockerfile] = _read(repository, container.dockerfile, recipe.devcontainer)
    digest = hashlib.sha256()
    for name in sorted(contents):
        for part in (name.encode(), contents[name]):
            digest.update(len(part).to_bytes(8, "big") + part)
    return Configuration(recipe, tuple(dict.fromkeys(files)), digest.hexdigest())


def find_recipe(repository: Path) -> Recipe | None:
    """The recipe of ``whimbrel.toml``, else of ``[tool.whimbrel]``, else None.

    A Dockerfile or devcontainer.json without a recipe is not one: projects keep those for
    deployment; a recipe has to name it (``dockerfile = "Dockerfile"``).

    Raises:
        ConfigError: see ``load_configuration``.
    """
    own = repository / RECIPE_FILE
    if own.is_file():
        return _parse(_toml(own, RECIPE_FILE), RECIPE_FILE, prefix="")
    pyproject = repository / "pyproject.toml"
    if not pyproject.is_file():
        return None
    try:
        tool: Any = _toml(pyproject, "pyproject.toml").get("tool", {})
    except ConfigError:
        # A broken pyproject.toml is the project's problem (perhaps the bug); it holds no recipe.
        return None
    table = tool.get("whimbrel") if isinstance(tool, dict) else None
    if table is None:
        return None
    return _parse(table, "pyproject.toml", prefix="tool.whimbrel.")


def _toml(path: Path, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} is not valid TOML: {error}") from error


def _recipe_bytes(repository: Path, source: str) -> bytes:
    """Only the recipe's own table counts: bumping a version in pyproject.toml keeps the trust."""
    data = _toml(repository / source, source)
    table = data if source == RECIPE_FILE else data["tool"]["whimbrel"]
    return json.dumps(table, sort_keys=True, default=str).encode()


def _read(repository: Path, name: str, named_in: str) -> bytes:
    path = (repository / name).resolve()
    if not path.is_relative_to(repository.resolve()):
        raise ConfigError(f"{named_in} names {name}, which lies outside the repository")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{named_in} names {name}, which cannot be read: {error.strerror}") from error


class _Reader:
    """Takes values out of one table, naming file and key in every complaint."""

    def __init__(self, table: Mapping[str, Any], source: str, prefix: str) -> None:
        self.table = table
        self.source = source
        self.prefix = prefix

    def fail(self, key: str, wanted: str) -> ConfigError:
        value: Any = self.table[key]
        return ConfigError(
            f"{self.source}: {self.prefix}{key} must be {wanted}, not {type(value).__name__}",
            hint="see docs/recipe.md",
        )

    def text(self, key: str) -> str | None:
        value = self.table.get(key)
        if value is None or (isinstance(value, str) and value):
            return value
        raise self.fail(key, "a non-empty string")

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.table.get(key, [])
        if isinstance(value, str) and value:
            return (value,)
        if isinstance(value, list) and all(isinstance(item, str) and item for item in value):
            return tuple(value)
        raise self.fail(key, "a string or a list of strings")

    def seconds(self, key: str) -> float | None:
        value = self.table.get(key)
        if value is None:
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
            return float(value)
        raise self.fail(key, "a positive number of seconds")

    def flag(self, key: str) -> bool:
        value = self.table.get(key, False)
        if isinstance(value, bool):
            return value
        raise self.fail(key, "true or false")

    def sub(self, key: str) -> Mapping[str, Any]:
        value = self.table.get(key, {})
        if isinstance(value, dict):
            return value
        raise self.fail(key, "a table")

    def known(self, keys: frozenset[str]) -> None:
        unknown = sorted(set(self.table) - keys)
        if unknown:
            raise ConfigError(
                f"{self.source}: unknown key {self.prefix}{unknown[0]}",
                hint=f"known keys: {', '.join(sorted(keys))}",
            )


_KEYS: Final = frozenset(
    ("setup", "test", "env", "timeouts", "services", "network", "image", "dockerfile", "devcontainer")
)


def _parse(table: Any, source: str, *, prefix: str) -> Recipe:
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {prefix.rstrip('.')} must be a table, not {type(table).__name__}")
    reader = _Reader(table, source, prefix)
    reader.known(_KEYS)
    env = reader.sub("env")
    for name, value in env.items():
        if not isinstance(value, str):
            raise _Reader(env, source, f"{prefix}env.").fail(name, "a string")
    timeouts = _Reader(reader.sub("timeouts"), source, f"{prefix}timeouts.")
    timeouts.known(frozenset(("run", "test")))
    images = [key for key in ("image", "dockerfile", "devcontainer") if table.get(key)]
    if len(images) > 1:
        raise ConfigError(f"{source}: {prefix}{images[0]} and {prefix}{images[1]} exclude each other")
    return Recipe(
        source=source,
        setup=reader.strings("setup"),
        test=_test_command(reader),
        services=reader.strings("services"),
        env=dict(env),
        run_timeout_s=timeouts.seconds("run"),
        test_timeout_s=timeouts.seconds("test"),
        network=reader.flag("network"),
        image=reader.text("image"),
        dockerfile=reader.text("dockerfile"),
        devcontainer=reader.text("devcontainer"),
    )


def _test_command(reader: _Reader) -> tuple[str, ...]:
    value = reader.table.get("test", [])
    if not isinstance(value, str):
        return reader.strings("test")
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise ConfigError(f"{reader.source}: {reader.prefix}test cannot be split: {error}") from error
    if not words:
        raise reader.fail("test", "a non-empty command")
    # Anything only a shell understands is given to one.
    return ("/bin/sh", "-c", value) if any(sign in value for sign in "|&;<>$`*?\n") else tuple(words)


@dataclass(frozen=True)
class Devcontainer:
    """The parts of a devcontainer.json that say which image to use."""

    image: str | None
    dockerfile: str | None
    """Repository-relative."""
    context: str = "."
    """Repository-relative build context."""


def read_devcontainer(repository: Path, name: str) -> Devcontainer:
    """Reads JSON with comments and trailing commas.

    Raises:
        ConfigError: unreadable, not JSON, or neither an image nor a Dockerfile in it.
    """
    text = _read(repository, name, RECIPE_FILE).decode("utf-8", "replace")
    try:
        data: Any = json.loads(_plain_json(text))
    except ValueError as error:
        raise ConfigError(f"{name} is not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{name} must hold an object")
    build: Any = data.get("build")
    build = build if isinstance(build, dict) else {}
    dockerfile = build.get("dockerfile") or build.get("dockerFile") or data.get("dockerFile")
    here = Path(name).parent
    if isinstance(data.get("image"), str):
        return Devcontainer(image=data["image"], dockerfile=None)
    if isinstance(dockerfile, str):
        context = _joined(repository, here, str(build.get("context", data.get("context", "."))), name)
        return Devcontainer(None, _joined(repository, here, dockerfile, name), context)
    raise ConfigError(f"{name} names neither an image nor a Dockerfile")


def _joined(repository: Path, base: Path, relative: str, named_in: str) -> str:
    root = repository.resolve()
    path = (root / base / relative).resolve()
    if not path.is_relative_to(root):
        raise ConfigError(f"{named_in} names {relative}, which lies outside the repository")
    return path.relative_to(root).as_posix()


def _plain_json(text: str) -> str:
    """Without comments and trailing commas; strings are left alone."""
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        if char == '"':
            end = position + 1
            while end < len(text) and text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            out.append(text[position : end + 1])
            position = end + 1
        elif text.startswith("//", position):
            position = _after(text, "\n", position, keep=True)
        elif text.startswith("/*", position):
            position = _after(text, "*/", position + 2, keep=False)
        elif char in "}]":
            while out and out[-1].isspace():
                out.pop()
            if out and out[-1] == ",":
                out.pop()
            out.append(char)
            position += 1
        else:
            out.append(char)
            position += 1
    return "".join(out)


def _after(text: str, mark: str, start: int, *, keep: bool) -> int:
    found = text.find(mark, start)
    if found < 0:
        return len(text)
    return found if keep else found + len(mark)
