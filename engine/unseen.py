"""Images in a conversation with a model that has no eyes: it is told that they are there."""

from __future__ import annotations

from collections.abc import Sequence

from .chat import ImagePart, Message, TextPart

NO_IMAGE = "[an image that this model cannot see]"
NOTICE = "this model cannot see images: it is told only that there is one"


def has_images(history: Sequence[Message]) -> bool:
    """Whether any message holds an image."""
    return any(isinstance(part, ImagePart) for message in history for part in message.parts)


def remarked(history: Sequence[Message]) -> Sequence[Message]:
    """The history with a remark in place of each image."""
    if not has_images(history):
        return history
    return [
        message.model_copy(
            update={
                "parts": tuple(
                    TextPart(text=NO_IMAGE) if isinstance(part, ImagePart) else part for part in message.parts
                )
            }
        )
        for message in history
    ]
