"""API keys in the system's keyring (extra ``keyring``); never in files of our own."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from ...sandbox.base.errors import ConfigError
from ...sandbox.base.secrets import register

SERVICE = "whimbrel"
MAX_KEY = 4096


def stored_key(host: str) -> str | None:
    """The key a person stored for a host; None without one, or without a keyring."""
    keyring = _keyring()
    if keyring is None:
        return None
    try:
        key = keyring.get_password(SERVICE, host.lower())
    except Exception:  # noqa: BLE001 - backends raise what they like; a broken keyring is one without keys
        return None
    if not isinstance(key, str) or not key.strip():
        return None
    register(f"key of {host}", key.strip())
    return key.strip()


def store_key(host: str, key: str) -> None:
    """Stores it.

    Raises:
        ConfigError: unusable key, or no keyring here.
    """
    key = key.strip()
    if not key or len(key) > MAX_KEY or not (key.isascii() and key.isprintable()):
        raise ConfigError("what was given is no API key", hint="paste the key alone, in one line")
    register(f"key of {host}", key)
    _needed().set_password(SERVICE, host.lower(), key)


def forget_key(host: str) -> bool:
    """Deletes it; False when there was none.

    Raises:
        ConfigError: no keyring here.
    """
    keyring = _needed()
    if keyring.get_password(SERVICE, host.lower()) is None:
        return False
    keyring.delete_password(SERVICE, host.lower())
    return True


class _Guarded:
    """The keyring with its many errors made one."""

    def __init__(self, keyring: Any) -> None:
        self._keyring = keyring

    def __getattr__(self, name: str) -> Any:
        action = getattr(self._keyring, name)

        def call(*arguments: str) -> Any:
            try:
                return action(*arguments)
            except Exception as error:
                # The text of a backend's error may hold anything, so its kind is all that is shown.
                raise ConfigError(
                    f"the system's keyring does not work here ({type(error).__name__})",
                    hint="put the key into an environment variable, for example WHIMBREL_API_KEY",
                ) from error

        return call


def _needed() -> _Guarded:
    keyring = _keyring()
    if keyring is None:
        raise ConfigError(
            "the keyring package is not installed",
            hint="pip install 'whimbrel[keyring]', or put the key into WHIMBREL_API_KEY",
        )
    return _Guarded(keyring)


def _keyring() -> Any:
    if importlib.util.find_spec("keyring") is None:
        return None
    try:
        return importlib.import_module("keyring")
    except Exception:  # noqa: BLE001 - a broken installation is one without a keyring
        return None
