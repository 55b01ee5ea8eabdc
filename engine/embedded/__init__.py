"""The model ``embedded``: a deterministic policy that needs no network, no GPU and no weights."""

from .model import EmbeddedModel

__all__ = ["EmbeddedModel"]
