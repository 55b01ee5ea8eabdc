"""The readable text of an HTML page: headings, lists, code and links kept; scripts and styles left out."""

from __future__ import annotations

import re
from html.parser import HTMLParser

__all__ = ["html_to_text"]

_HIDDEN = frozenset({"script", "style", "template", "noscript", "svg", "head", "iframe", "object"})
_BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "br", "dd", "details", "div", "dl", "dt", "figure",
        "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p",
        "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "title", "tr", "ul",
    }
)  # fmt: skip
_MAX_LINK = 300


def html_to_text(html: str) -> str:
    """Never raises for what the page holds."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    text = "".join(reader.pieces)
    text = re.sub(r"[ \t]+\n", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._hidden: list[str] = []
        self._pre = 0
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if self._hidden:
            if tag == self._hidden[-1]:
                self._hidden.append(tag)
            return
        if tag == "body":
            self._hidden.clear()
        if tag in _HIDDEN:
            self._hidden.append(tag)
            return
        if tag in _BLOCKS:
            self._break()
        if tag == "pre":
            self._pre += 1
        elif tag == "li":
            self.pieces.append("- ")
        elif re.fullmatch(r"h[1-6]", tag):
            self.pieces.append("\n" + "#" * int(tag[1]) + " ")
        elif tag in ("td", "th"):
            self.pieces.append(" | ")
        elif tag == "a":
            self._links.append((named.get("href") or "")[:_MAX_LINK])
        elif tag == "img" and named.get("alt"):
            self.pieces.append(f"[image: {named['alt']}]")

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            if tag == self._hidden[-1]:
                self._hidden.pop()
            return
        if tag == "pre":
            self._pre = max(0, self._pre - 1)
        if tag == "a" and self._links:
            link = self._links.pop()
            if link.startswith(("http://", "https://")):
                self.pieces.append(f" ({link})")
        if tag in _BLOCKS:
            self._break()
            if tag in ("p", "pre", "table", "ul", "ol"):
                self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        if self._pre:
            self.pieces.append(data)
            return
        text = re.sub(r"\s+", " ", data)
        last = self.pieces[-1][-1:] if self.pieces and self.pieces[-1] else "\n"
        self.pieces.append(text.lstrip() if last in ("\n", " ") else text)

    def _break(self) -> None:
        if self.pieces and not self.pieces[-1].endswith("\n"):
            self.pieces.append("\n")
