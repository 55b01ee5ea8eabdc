"""The vision part of a checkpoint as the text model needs it: from an image of a prompt to hidden rows."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

from ....sandbox.base.errors import ConfigError
from ...scheduling.request import Span
from ..chat.images import ImagePlace
from ..checkpoint import Checkpoint
from .config import read_vision_config
from .tower import VisionModel

_MARK = "vision_tower.patch_embed.proj.weight"


class Eyes:
    """Loads the tower with the first image; any thread may ask."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._model: VisionModel | None = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, folder: Path, hidden: int) -> Eyes | None:
        """The vision part of a checkpoint; None where its config or its tensors have none.

        Args:
            hidden: width of the text model's hidden states.

        Raises:
            ConfigError: the config's vision part is wrong, or is of another text model.
        """
        if not Checkpoint(folder).has_outside(_MARK):
            return None
        config, _ = read_vision_config(folder)
        if config.text_hidden != hidden:
            raise ConfigError(
                f"{folder}: vision_config.text_hidden_size is {config.text_hidden}, the text model's {hidden}"
            )
        return cls(folder)

    def __call__(self, place: ImagePlace) -> Span:
        """The rows that stand for an image of a prompt.

        Raises:
            UsageError: the image cannot be read. ModelError: the tower's tensors cannot be used.
        """
        with self._lock:
            if self._model is None:
                self._model = VisionModel.load(self._folder)
            patches, rows = self._model(place.data)
        if patches.tokens != place.count:
            raise ConfigError(
                f"{self._folder}: an image takes {patches.tokens} rows, and its prompt has {place.count}",
                hint="preprocessor_config.json is of another checkpoint",
            )
        return Span(place.start, rows, hashlib.sha256(place.data).digest())
