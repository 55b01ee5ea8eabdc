"""Pictures reach a model in a message of their own, and one that cannot see is told so."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from whimbrel.app.tools.pictures import MAX_EDGE
from whimbrel.app.tools.read import ReadTool
from whimbrel.app.tools.view_image import ViewImageArguments, ViewImageTool
from whimbrel.sandbox.base.errors import ToolError

from ..mock_server import Request, completion
from .scene import SHOP, Scene, scene


def picture(form: str = "PNG", size: tuple[int, int] = (40, 20), mode: str = "RGB", **options: Any) -> bytes:
    out = io.BytesIO()
    Image.new(mode, size, 0).save(out, form, **options)
    return out.getvalue()


def bomb(edge: int) -> bytes:
    """A PNG of a few hundred bytes that says it has edge times edge pixels."""

    def piece(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", edge, edge, 8, 2, 0, 0, 0)
    body = piece(b"IHDR", header) + piece(b"IDAT", zlib.compress(b"\0" * 1000)) + piece(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.fixture
async def gallery(tmp_path: Path) -> AsyncIterator[Scene]:
    upside = Image.Exif()
    upside[0x0112] = 6
    files = {
        "logo.png": picture(),
        "photo.dat": picture("JPEG", (4000, 3000), exif=upside),
        "anim.gif": picture("GIF", save_all=True, append_images=[Image.new("RGB", (40, 20), 9)]),
        "w.webp": picture("WEBP", mode="RGBA"),
        "bomb.png": bomb(100_000),
        "large.png": bomb(10_000),
        "cut.png": picture(size=(400, 400))[:-40],
        "fake.png": "no picture",
        "logo.svg": "<svg/>",
        "empty.png": "",
    }
    async with scene(tmp_path, {**SHOP, **files}) as made:
        yield made


def text_only_tools(request: Request) -> str:
    """As strict servers: a tool message holds a string and nothing else."""
    odd = [m for m in request.messages if m["role"] == "tool" and not isinstance(m["content"], str)]
    return "tool messages must be text" if odd else ""


async def test_a_picture_follows_all_results_of_its_step_as_a_user_message(gallery: Scene) -> None:
    def script(request: Request):
        if request.messages[-1]["role"] == "user" and len(request.messages) > 2:
            return completion(text="I see it.")
        calls = [("a", "view_image", {"path": "logo.png"}), ("b", "read", {"path": "logo.svg"})]
        return completion(calls=calls)

    outcome = await gallery.play(script, [ViewImageTool(), ReadTool()], validators=[text_only_tools])
    assert outcome.status == "answered", outcome.error
    assert gallery.server is not None
    last = gallery.server.requests[-1].messages
    assert [message["role"] for message in last[2:]] == ["assistant", "tool", "tool", "user"]
    kinds = [part["type"] for part in last[-1]["content"]]
    assert kinds == ["text", "image_url"]
    url = last[-1]["content"][1]["image_url"]["url"]
    shown = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
    assert shown.size == (40, 20) and url.startswith("data:image/png;base64,")


async def view(gallery: Scene, path: str) -> Any:
    return await ViewImageTool().run(gallery.context, ViewImageArguments(path=path))


@pytest.mark.parametrize(
    ("path", "form", "size", "sent"),
    [
        ("photo.dat", "JPEG", (3000, 4000), (MAX_EDGE * 3 // 4, MAX_EDGE)),
        ("anim.gif", "GIF", (40, 20), (40, 20)),
        ("w.webp", "WEBP", (40, 20), (40, 20)),
    ],
)
async def test_content_says_what_it_is_and_large_ones_are_scaled_upright(
    gallery: Scene, path: str, form: str, size: tuple[int, int], sent: tuple[int, int]
) -> None:
    result = await view(gallery, path)
    assert (result.data["format"], result.data["width"], result.data["height"]) == (form, *size)
    shown = Image.open(io.BytesIO(base64.b64decode(result.images[0].data_base64)))
    assert shown.size == sent and not shown.getexif()
    assert path != "anim.gif" or "first of 2 frames" in result.text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("bomb.png", "far too many pixels"),
        ("large.png", "10000 x 10000 pixels, too many"),
        ("cut.png", "damaged"),
        ("fake.png", "is text, not a PNG"),
        ("logo.svg", "is text, not a PNG"),
        ("empty.png", "is empty, not a PNG"),
        ("no.png", "does not exist"),
        ("../logo.png", "outside"),
        ("shop", "is a directory"),
    ],
)
async def test_what_is_no_picture_is_one_clear_line(gallery: Scene, path: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        await view(gallery, path)


async def test_a_model_that_takes_no_images_is_told_so(gallery: Scene) -> None:
    gallery.context.sees_images = lambda: False
    with pytest.raises(ToolError, match="takes no images"):
        await view(gallery, "logo.png")
