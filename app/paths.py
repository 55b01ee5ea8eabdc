"""Where Whimbrel keeps things on this machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..sandbox.base.errors import ConfigError


def state_dir() -> Path:
    """Sessions, results, trust: ``WHIMBREL_STATE_DIR`` or the platform's user state folder."""
    override = os.environ.get("WHIMBREL_STATE_DIR")
    if override:
        return _made(Path(override).expanduser().absolute(), 0o700)
    import platformdirs

    return _made(Path(platformdirs.user_state_dir("whimbrel", appauthor=False)), 0o700)


def cache_dir() -> Path:
    """What can be made again: ``WHIMBREL_CACHE_DIR`` or the platform's user cache folder."""
    override = os.environ.get("WHIMBREL_CACHE_DIR")
    if override:
        return _made(Path(override).expanduser().absolute(), 0o755)
    import platformdirs

    return _made(Path(platformdirs.user_cache_dir("whimbrel", appauthor=False)), 0o755)


def config_dir() -> Path:
    """The person's settings (it need not exist): ``WHIMBREL_CONFIG_DIR`` or the platform's user folder."""
    override = os.environ.get("WHIMBREL_CONFIG_DIR")
    if override:
        return Path(override).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_config_dir("whimbrel", appauthor=False))


def runs_dir() -> Path:
    """Working copies of running jobs: ``WHIMBREL_RUN_DIR``, or a folder a sandbox user can reach.

    Root's home is usually closed to other users, but the sandboxes of a root caller run
    as a non-root user that must reach the copy: so root's copies live under /var/tmp.
    """
    override = os.environ.get("WHIMBREL_RUN_DIR")
    if override:
        return _made(Path(override).expanduser().absolute(), 0o711)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        base = _made(Path("/var/tmp/whimbrel-root"), 0o711)
        info = base.lstat()
        # /var/tmp is open to everybody: a link or folder that someone else put there is not ours to fill.
        if stat.S_ISLNK(info.st_mode) or info.st_uid != 0 or info.st_mode & 0o022:
            raise ConfigError(
                f"{base} is a link, or another user may write to it", hint="remove it or set WHIMBREL_RUN_DIR"
            )
        return base
    return _made(state_dir() / "runs", 0o711)


def _made(path: Path, mode: int) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=mode)
        info = path.lstat()
    except OSError as error:
        raise ConfigError(
            f"cannot create {path}: {error.strerror}",
            hint="set WHIMBREL_STATE_DIR, WHIMBREL_CACHE_DIR or WHIMBREL_RUN_DIR to a writable one",
        ) from error
    if not stat.S_ISDIR(info.st_mode) and not path.is_dir():
        raise ConfigError(f"{path} is not a folder", hint="set WHIMBREL_STATE_DIR to another place")
    return path
