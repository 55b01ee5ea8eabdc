"""A picture: through the terminal's own protocol where it has one, in half blocks where it has not."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from .plain_text import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["HalfBlocks", "ImageView", "Way", "ask_terminal", "best_way", "worth_asking"]

MAX_BYTES = 32 << 20
MAX_PIXELS = 50_000_000
MAX_EDGE = 1600
"""Pixels that are kept: more than any terminal shows."""
_PROGRAMS = frozenset({"WezTerm", "iTerm.app", "ghostty", "mintty", "rio", "vscode"})
Way = Literal["auto", "blocks", "none"]


def worth_asking(environment: Mapping[str, str]) -> bool:
    """Whether the terminal may have a protocol for pictures, by what it says of itself."""
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if environment.get("TMUX") or term.startswith(("screen", "tmux")):
        return False
    named = any(environment.get(name) for name in ("KITTY_WINDOW_ID", "KONSOLE_VERSION", "WT_SESSION"))
    return (
        named or program in _PROGRAMS or any(word in term for word in ("kitty", "foot", "mlterm", "ghostty"))
    )


def ask_terminal() -> None:
    """Finds out what the terminal can show. To be called before the application starts: it reads answers."""
    with contextlib.suppress(Exception):  # the extra is missing, or the terminal answers nonsense
        importlib.import_module("textual_image.widget")


def best_way() -> Callable[[Any], Widget] | None:
    """The widget for the protocol that ``ask_terminal`` found; None: half blocks it is.

    Never asks by itself: while the application runs, the answer would be taken for typed keys.
    """
    if "textual_image.widget" not in sys.modules:
        return None
    from textual_image.renderable import Image as Found
    from textual_image.renderable import SixelImage, TGPImage
    from textual_image.widget import Image as ImageWidget

    return ImageWidget if Found in (SixelImage, TGPImage) else None


class HalfBlocks(Widget):
    """Two pixels a cell: the upper half block in one colour on the other."""

    DEFAULT_CSS = "HalfBlocks { height: auto; width: 1fr; }"

    def __init__(self, image: Image, max_rows: int = 24) -> None:
        super().__init__()
        self._image = image.convert("RGBA")
        self._max_rows = max_rows
        self._made: tuple[int, list[Strip]] | None = None

    def cells(self, width: int) -> tuple[int, int]:
        """Columns and rows at most ``width`` wide; a cell is twice as high as wide."""
        wide, high = self._image.size
        columns = max(1, min(width, wide, round(self._max_rows * 2 * wide / high)))
        return columns, max(1, min(self._max_rows, round(columns * high / wide / 2)))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.cells(width)[1] if width > 0 else 0

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._made = None

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self._made is None or self._made[0] != width:
            self._made = (width, self._draw(width))
        strips = self._made[1]
        strip = strips[y] if y < len(strips) else Strip([], 0)
        return strip.crop_extend(0, width, self.rich_style)

    def _draw(self, width: int) -> list[Strip]:
        from PIL import Image

        columns, rows = self.cells(width)
        ground = self.background_colors[1].rgb
        small = Image.new("RGBA", (columns, rows * 2), (*ground, 255))
        scaled = self._image.resize((columns, rows * 2))
        small = Image.alpha_composite(small, scaled).convert("RGB")
        pixels = small.tobytes()
        strips: list[Strip] = []
        for row in range(rows):
            segments: list[Segment] = []
            for column in range(columns):
                above = (row * 2 * columns + column) * 3
                below = above + columns * 3
                style = RichStyle(
                    color=RichColor.from_rgb(*pixels[above : above + 3]),
                    bgcolor=RichColor.from_rgb(*pixels[below : below + 3]),
                )
                segments.append(Segment("▀", style))
            strips.append(Strip(segments, columns))
        return strips


class ImageView(Vertical):
    """A picture out of bytes or a file, with its name and size below.

    What is too large, no picture or broken is one line that says so; nothing is decoded on the
    event loop.
    """

    DEFAULT_CSS = """
    ImageView { height: auto; width: 1fr; padding: 0 1;
        & > .image--caption { height: 1; color: $text-muted; }
        & > .image--picture { height: auto; max-height: 24; width: auto; max-width: 100%; }
    }
    """

    def __init__(
        self,
        source: bytes | Path,
        caption: str = "",
        way: Way = "auto",
        *,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._source = source
        self._caption = caption or (source.name if isinstance(source, Path) else "image")
        self._way: Way = way

    @property
    def text(self) -> str:
        return self._caption

    def renew(self) -> Callable[[], ImageView]:
        """What makes this widget again."""
        source, caption, way, classes = self._source, self._caption, self._way, " ".join(self.classes)
        return lambda: ImageView(source, caption, way, classes=classes)

    def compose(self) -> ComposeResult:
        yield Static(f"▣ {one_line(self._caption)}", classes="image--caption", markup=False)

    def on_mount(self) -> None:
        if self._way != "none":
            self.run_worker(self._load())

    async def _load(self) -> None:
        caption = self.query_one(".image--caption", Static)
        image, said = await asyncio.to_thread(_decoded, self._source)
        caption.update(f"▣ {said} · {one_line(self._caption)}")
        if image is None:
            return
        make = best_way() if self._way == "auto" else None
        picture = make(image) if make is not None else HalfBlocks(image)
        if make is not None:
            picture.add_class("image--picture")
        await self.mount(picture, before=0)


def _decoded(source: bytes | Path) -> tuple[Image | None, str]:
    """The picture, made small, and a line about it; None with the reason."""
    from PIL import Image, UnidentifiedImageError

    try:
        if isinstance(source, Path):
            if source.stat().st_size > MAX_BYTES:
                return None, f"over {MAX_BYTES >> 20} MiB, too large to show"
            source = source.read_bytes()
        if len(source) > MAX_BYTES:
            return None, f"over {MAX_BYTES >> 20} MiB, too large to show"
        with Image.open(io.BytesIO(source)) as image:
            wide, high = image.size
            if wide * high > MAX_PIXELS:
                return None, f"{wide} × {high} pixels, too many to show"
            image.draft("RGB", (MAX_EDGE, MAX_EDGE))
            image.load()
            small = image.convert("RGBA")
            small.thumbnail((MAX_EDGE, MAX_EDGE))
            return small, f"{wide} × {high}"
    except UnidentifiedImageError:
        return None, "no picture that can be shown"
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return None, f"cannot be shown: {one_line(str(error), 120)}"
