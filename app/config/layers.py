"""Loading: defaults, user file, project file (trusted repositories only), profile, environment, ``-c``.

Later layers win. Tables are merged key by key and lists are replaced, except the permission
rules: a later layer may add rules, never take another layer's away.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from ...sandbox.base.errors import ConfigError, UsageError
from ..paths import PROJECT_SETTINGS as PROJECT_FILE
from .keys import UnknownKey, explain, join_key, lookup, nested, parse_value, split_key, unknown_keys
from .model import Settings

_PREFIX = "WHIMBREL_"
_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Layer:
    """Settings from one place."""

    origin: str
    """``user FILE``, ``project FILE``, ``profile NAME``, ``environment`` or ``-c``."""
    values: dict[str, Any]
    origins: Mapping[str, str]
    """Dotted key -> a more precise origin, where the layer has several."""


@dataclass(frozen=True)
class Loaded:
    """The outcome: the settings, where each key comes from, and what the person should know."""

    settings: Settings
    origins: Mapping[str, str]
    """Dotted key -> origin, for every key that is not a default."""
    notes: tuple[str, ...]

    def origin(self, key: str) -> str:
        return self.origins.get(key, "default")


def user_file() -> Path:
    """``config.toml`` in ``WHIMBREL_CONFIG_DIR`` or the platform's user configuration folder."""
    override = os.environ.get("WHIMBREL_CONFIG_DIR")
    if override:
        return Path(override).expanduser().absolute() / "config.toml"
    import platformdirs

    return Path(platformdirs.user_config_dir("whimbrel", appauthor=False)) / "config.toml"


def project_top(start: Path) -> Path | None:
    """The nearest folder at or above ``start`` that holds ``.git``; no git is run and nothing is obeyed."""
    try:
        place = start.expanduser().resolve()
    except OSError:
        return None
    for folder in (place, *place.parents):
        try:
            if (folder / ".git").exists():
                return folder
        except OSError:
            return None
    return None


def load_settings(
    repository: Path | None = None,
    *,
    trust: bool = False,
    profile: str | None = None,
    overrides: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Reads every layer and checks it.

    Args:
        repository: a folder of the project whose own file may count.
        trust: the person trusts this repository now (``--trust``).
        profile: ``--profile``; None = the one that the settings name.
        overrides: ``-c`` values, ``section.key=value``.

    Raises:
        ConfigError: a file is malformed or holds a wrong value: file, line and column, or key.
        UsageError: an override or the profile is wrong.
    """
    notes: list[str] = []
    layers = [_file_layer(user_file(), "user", notes)]
    layers.append(_project_layer(repository, trust, notes))
    layers.append(environment_layer(os.environ if environ is None else environ, notes))
    layers.append(override_layer(overrides))
    merged = _merged(layers)
    # The profile stands between the files and what was said for this run alone.
    name = profile if profile is not None else str(merged.get("profile") or "")
    if name:
        layers.insert(2, _profile_layer(name, merged))
        merged = _merged(layers)
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(f"the settings do not fit together: {explain(error)}") from error
    origins: dict[str, str] = {}
    for layer in layers:
        for key in _leaves(layer.values):
            origins[key] = layer.origins.get(key, layer.origin)
    return Loaded(settings, origins, tuple(notes))


def read_toml(path: Path) -> dict[str, Any]:
    """The table in a file; empty when there is none.

    Raises:
        ConfigError: unreadable or malformed; names the file, line and column.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", hint="check its permissions") from error
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{path} is larger than {_MAX_BYTES >> 10} KiB", hint="move it away")
    try:
        return tomllib.loads(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}, line {line}: is not UTF-8", hint="save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        text = str(error)
        what, _, where = text.partition(" (at ")
        place = where.rstrip(")")
        if not place.startswith("line "):
            lines = data.decode("utf-8-sig").splitlines() or [""]
            place = f"line {len(lines)}, column {len(lines[-1]) + 1}"
        raise ConfigError(
            f"{path}, {place}: {what}",
            hint="repair it, or put the last good one back: whimbrel config restore",
        ) from error


def environment_layer(environ: Mapping[str, str], notes: list[str]) -> Layer:
    """``WHIMBREL_SECTION__KEY`` variables. A name that is no setting is told, a wrong value is an error."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, text in sorted(environ.items()):
        if not name.startswith(_PREFIX) or "__" not in name:
            continue
        key = tuple(part.lower() for part in name.removeprefix(_PREFIX).split("__"))
        try:
            _merge(values, nested(key, parse_value(key, text)))
        except UnknownKey:
            notes.append(f"{name} is set, but there is no setting {join_key(key)}")
            continue
        except ValueError as error:
            raise ConfigError(f"the environment variable {name} is wrong: {error}") from error
        origins[join_key(key)] = f"environment {name}"
    return Layer("environment", values, origins)


def override_layer(overrides: Iterable[str]) -> Layer:
    """``-c section.key=value``; everything after the first ``=`` is the value.

    Raises:
        UsageError: no key, no ``=``, an unknown key, or a value that does not fit it.
    """
    values: dict[str, Any] = {}
    for text in overrides:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f"-c {text!r} is not of the form section.key=value", hint="for example -c limits.steps=20"
            )
        try:
            key = split_key(name.strip())
            _merge(values, nested(key, parse_value(key, value.strip())))
        except UnknownKey as error:
            raise UsageError(
                f"-c {text!r}: {error}", hint="`whimbrel config show` lists the settings"
            ) from error
        except ValueError as error:
            raise UsageError(f"-c {text!r}: {error}") from error
    return Layer("-c", values, {})


def _file_layer(path: Path, kind: str, notes: list[str]) -> Layer:
    values = read_toml(path)
    if values:
        _check(values, str(path), notes)
    return Layer(f"{kind} {path}", values, {})


def _project_layer(repository: Path | None, trust: bool, notes: list[str]) -> Layer:
    empty = Layer("project", {}, {})
    top = project_top(repository) if repository is not None else None
    if top is None or not (top / PROJECT_FILE).exists():
        return empty
    if not trust:
        from ..trust import is_trusted

        if not is_trusted(top):
            notes.append(f"{PROJECT_FILE} found and ignored: not trusted (read it, then pass --trust)")
            return empty
    path = top / PROJECT_FILE
    if not path.resolve().is_relative_to(top.resolve()):
        raise ConfigError(f"{path} leads outside the repository", hint="put a plain file there")
    return _file_layer(path, "project", notes)


def _profile_layer(name: str, merged: Mapping[str, Any]) -> Layer:
    profiles: Any = merged.get("profiles") or {}
    if not isinstance(profiles, Mapping) or name not in profiles:
        known = ", ".join(sorted(cast("Mapping[str, Any]", profiles))) or "none is defined"
        raise UsageError(f"there is no profile {name!r}", hint=f"known: {known}")
    table = cast("dict[str, Any]", profiles[name])
    if "profiles" in table or "profile" in table:
        raise ConfigError(f"profiles.{name} holds a profile itself", hint="profiles do not nest")
    _check(table, f"profiles.{name}", [])
    return Layer(f"profile {name}", table, {})


def _check(values: dict[str, Any], source: str, notes: list[str]) -> None:
    try:
        checked = Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{source}: {explain(error)}", hint="see docs/configuration.md") from error
    for key in unknown_keys(checked):
        notes.append(f"{source}: unknown key {key} is kept and ignored")


def _merged(layers: Iterable[Layer]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for layer in layers:
        _merge(result, layer.values)
    return result


def _merge(into: dict[str, Any], values: Mapping[str, Any], path: tuple[str, ...] = ()) -> None:
    for name, value in values.items():
        here: Any = into.get(name)
        if isinstance(value, Mapping):
            table: dict[str, Any] = dict(cast("Mapping[str, Any]", here)) if isinstance(here, Mapping) else {}
            _merge(table, cast("Mapping[str, Any]", value), (*path, name))
            into[name] = table
        elif (*path, name) == ("permissions", "rules") and isinstance(here, list):
            into[name] = [*cast("list[Any]", here), *value]
        else:
            into[name] = value


def _leaves(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterable[str]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(cast("Mapping[str, Any]", value), (*path, name))
        else:
            yield join_key((*path, name))


def flat(settings: Settings) -> dict[str, Any]:
    """Every key with its value, dotted, in the order of the model."""
    table = settings.model_dump(mode="json")
    keys = [split_key(key) for key in _leaves(table)]
    return {join_key(key): lookup(table, key) for key in keys}
