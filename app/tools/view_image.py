"""The ``view_image`` tool: shows a picture of the workspace to a model that can see.

The picture goes to the model in a user message after the results of the step. Data: ``{"path",
"format", "width", "height", "bytes", "sent": {"media_type", "width", "height", "bytes"}}``; sizes in
pixels and bytes.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from pydantic import Field

from ...sandbox.base.errors import ToolError
from ..repo.files import read_regular
from .base import PermissionClass, ToolArguments, ToolContext, ToolResult
from .paths import printable, workspace_path
from .pictures import MAX_FILE_BYTES, read_picture
from .read import similar_names


class ViewImageArguments(ToolArguments):
    path: str = Field(description="A PNG, JPEG, GIF or WebP file, from the repository's top.")


class ViewImageTool:
    name: ClassVar[str] = "view_image"
    arguments: ClassVar[type[ToolArguments]] = ViewImageArguments
    permission: ClassVar[PermissionClass] = PermissionClass.READ

    async def run(self, context: ToolContext, arguments: ViewImageArguments) -> ToolResult:
        """Raises ToolError for what is no picture, is too large or damaged, or when the model cannot see."""
        if context.sees_images() is False:
            raise ToolError(
                "this model takes no images", hint="go by the file's name, size and how the code uses it"
            )
        path = workspace_path(context, arguments.path)
        try:
            data = await asyncio.to_thread(read_regular, context.workspace.root, path, MAX_FILE_BYTES)
        except FileNotFoundError as error:
            hint = similar_names(context.workspace.root / path)
            raise ToolError(f"{printable(path)} does not exist", hint=hint) from error
        except OSError as error:
            raise ToolError(f"{printable(path)} cannot be read: {error.strerror or error}") from error
        if data is None:
            raise ToolError(f"{printable(path)} is over {MAX_FILE_BYTES >> 20} MiB, too large to show")
        return await asyncio.to_thread(_shown, printable(path), data)


def _shown(path: str, data: bytes) -> ToolResult:
    picture = read_picture(path, data)
    size, sent = picture.size, picture.sent_size
    facts: dict[str, Any] = {
        "path": path,
        "format": picture.kind,
        "width": size[0],
        "height": size[1],
        "bytes": len(data),
        "sent": {
            "media_type": picture.part.media_type,
            "width": sent[0],
            "height": sent[1],
            "bytes": picture.sent_bytes,
        },
    }
    text = f"{path}: {picture.kind}, {size[0]} x {size[1]} pixels, {len(data)} bytes"
    if sent != size:
        text += f"; shown at {sent[0]} x {sent[1]}"
    if picture.frames > 1:
        text += f"; the first of {picture.frames} frames"
    return ToolResult(f"{text}. The picture follows in the next message.", facts, images=(picture.part,))
