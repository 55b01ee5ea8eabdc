"""A prompt of the protocol (text, links, embedded files) as the text of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ..agent.prompts import delimited


def prompt_text(blocks: Sequence[Any], root: Path) -> str:
    """Links to files of the repository become ``@path``; embedded files stand below the text, as data.

    Args:
        blocks: content blocks of the library; those of kinds that were not offered are named, not dropped.
    """
    said: list[str] = []
    attached: list[str] = []
    for block in blocks:
        if block.type == "text":
            said.append(block.text)
        elif block.type == "resource_link":
            said.append(_mention(block.uri, root))
        elif block.type == "resource" and getattr(block.resource, "text", None) is not None:
            said.append(_mention(block.resource.uri, root))
            attached.append(
                f"{_mention(block.resource.uri, root)}:\n{delimited(block.resource.text, 'FILE')}"
            )
        else:
            said.append(f"[{block.type} that cannot be read here]")
    return "\n\n".join(["".join(said).strip(), *attached]).strip()


def _mention(uri: str, root: Path) -> str:
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return uri
    path = Path(unquote(parts.path))
    return f"@{path.relative_to(root).as_posix()}" if path.is_relative_to(root) else str(path)
