"""Isolation by bubblewrap."""

from .probe import probe_bwrap
from .sandbox import BwrapSandbox

__all__ = ["BwrapSandbox", "probe_bwrap"]
