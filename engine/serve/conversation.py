"""What both forms of request have in common: images, names of tools, tiers of effort."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence

from ..chat import Effort, ImagePart, ToolSpec
from .backend import Refused, ToolChoice

MOST_MESSAGES = 20_000
MOST_PARTS = 10_000
MOST_TOOLS = 1_024
MOST_STOPS = 16
LONGEST_STOP = 1_024

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_DATA_ADDRESS = re.compile(r"data:(image/[a-z0-9.+-]+);base64,", re.IGNORECASE)
_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
# Medium is served as high: there are three tiers, and too little thinking costs more than too much.
_TIERS: dict[str, Effort] = {
    "minimal": "low",
    "low": "low",
    "medium": "high",
    "high": "high",
    "xhigh": "max",
    "max": "max",
}
EFFORTS = ("none", *_TIERS)


def tier(value: str) -> Effort | None:
    """The tier of an effort by whatever name; None for ``none``, which switches thinking off."""
    return _TIERS.get(value)


def image_of_address(address: str, where: str) -> ImagePart:
    """The image in a data address.

    Raises:
        Refused: another kind of address: this server fetches nothing for anybody.
    """
    found = _DATA_ADDRESS.match(address)
    if not found:
        raise Refused(
            f"{where} must be a data address (data:image/png;base64,...): this server fetches no images",
            parameter=where,
        )
    return image(found[1], address[found.end() :], where)


def image(media_type: str, data: str, where: str) -> ImagePart:
    """An image that is there as base64 text."""
    kind = media_type.lower()
    if kind not in _IMAGES:
        raise Refused(f"{where} is of type {media_type[:40]!r}, not {', '.join(_IMAGES)}", parameter=where)
    try:
        if not base64.b64decode(data, validate=True):
            raise Refused(f"{where} is an empty image", parameter=where)
    except (binascii.Error, ValueError) as error:
        raise Refused(f"{where} is not base64", parameter=where) from error
    return ImagePart(media_type=kind, data_base64=data)


def check_tool_name(name: str, where: str) -> str:
    if not _TOOL_NAME.fullmatch(name):
        raise Refused(f"{where} must be 1 to 128 letters, digits, or one of _ . : -", parameter=where)
    return name


def check_tools(tools: Sequence[ToolSpec], choice: ToolChoice, where: str = "tool_choice") -> None:
    """Raises Refused: two tools of one name, or a choice among tools that are not there."""
    names = [tool.name for tool in tools]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(f"tools has {twice!r} more than once", parameter="tools")
    if choice.mode in ("required", "named") and not tools:
        raise Refused(f"{where} asks for a call, but there are no tools", parameter=where)
    if choice.mode == "named" and choice.name not in names:
        raise Refused(f"{where} names {choice.name[:64]!r}, which is none of the tools", parameter=where)
