"""Settings: layered TOML, checked once, then immutable plain data that is passed along."""

from __future__ import annotations

from .layers import Loaded, load_settings
from .model import Settings

__all__ = ["Loaded", "Settings", "load_settings"]
