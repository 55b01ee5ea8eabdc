"""The fixed sentences of the message language: taken from the checkpoint's own files, checked by hash.

The sentences around tool declarations, thinking effort, tool choice and response format belong to the model's
vendor and are not part of this project. They are read from the string literals of the checkpoint's encoder
file (or of a template that the person names): parsed, never executed. What is found is used only if its hash
is the released one. Where nothing fits, our own wording stands in, and ``notice`` says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .literals import HOLE, Template, find_templates

_MOST_PIECES: Final = 1000
_TOOL: Final = '[{"function":{"name":"f","parameters":{}},"type":"function"}]'
_SCHEMA: Final = '{"type":"object"}'

# What fills the hole of each sentence when its hash is checked.
PROBES: Final[Mapping[str, str]] = {
    "thinking-effort low": "low",
    "thinking-effort high": "high",
    "thinking-effort max": "max",
    "tool-choice required": "",
    "tool-choice none": "",
    "response-format json_object": "",
    "response-format json_schema": _SCHEMA,
    "tool-declare": _TOOL,
    "dynamic tool-declare": _TOOL,
}

Hashes = Mapping[str, tuple[int, str]]
"""Sentence to (UTF-8 bytes, SHA-256) of the probe body."""

RELEASED: Final[Hashes] = {
    "thinking-effort low": (223, "003035f6bf61ffe6180f4bd5e5a12df1a7cc0cf4550ef78f5591ce8a4537f5fe"),
    "thinking-effort high": (224, "a8513c631231c09d25027f0e0439194e4290e755fb20932c9f49dd7fa9d6ffc0"),
    "thinking-effort max": (223, "20389202b5a9e0b3b556c90431fb62dc2f1bdb13a6e23fb7b516a3c2da848580"),
    "tool-choice required": (91, "e2c3dc236d94164ab96601b3ff7891ad44cdc7d6b38583ab552be33a6bff5f53"),
    "tool-choice none": (95, "efabd595d24633a14929fd64b8c21542cb13e3e6637ced319c5bec433900a2bb"),
    "response-format json_object": (162, "a88696fd119e35cae2c9cb15ed5a8230bedb9f46e07231f9f85e893e0f993b84"),
    "response-format json_schema": (239, "0d88be0cf72d30d7aa7dff7bdf032ea877cf2a4521bb3d47029b34373a725326"),
    "tool-declare": (137, "9703b1679dd8277a06a13b8fca769242b97c81f41a9f812e33c4292e32e0c7a1"),
    "dynamic tool-declare": (253, "8ba504f7f70343b3ef39c5d576dba8c7bfa0e862fc6b37adc4e61c98908dff2e"),
}

_EFFORT: Final[Template] = (
    "This is how much thought the answer is worth: low is a glance, high is care, max is all it takes.\n"
    "thinking_effort=",
    HOLE,
)
OWN: Final[Mapping[str, Template]] = {
    "thinking-effort low": _EFFORT,
    "thinking-effort high": _EFFORT,
    "thinking-effort max": _EFFORT,
    "tool-choice required": ("The next answer has to call at least one of the tools.",),
    "tool-choice none": ("The next answer has to do without any tool call.",),
    "response-format json_object": ("The answer has to be one JSON object and nothing besides.",),
    "response-format json_schema": (
        "The answer has to be JSON that fits this schema, and nothing besides.\n\n```json\n",
        HOLE,
        "\n```",
    ),
    "tool-declare": ("# Tools\nThese functions are ready to be called.\n\n```json\n", HOLE, "\n```"),
    "dynamic tool-declare": (
        "# More tools\nFrom here on these functions are ready to be called, too.\n\n```json\n",
        HOLE,
        "\n```",
    ),
}
"""Our own wording, in the same shape."""


def fill(template: Template, value: str) -> str:
    return "".join(value if part is HOLE else str(part) for part in template)


def hashes_of(templates: Mapping[str, Template]) -> Hashes:
    bodies = {name: fill(template, PROBES[name]).encode() for name, template in templates.items()}
    return {name: (len(body), hashlib.sha256(body).hexdigest()) for name, body in bodies.items()}


@dataclass(frozen=True)
class Sentences:
    """The sentences in use.

    Args:
        templates: every name of `PROBES`.
        source: where they come from, for people.
        own: names for which our own wording stands in.
    """

    templates: Mapping[str, Template]
    source: str
    own: tuple[str, ...] = ()

    @property
    def notice(self) -> str:
        """What a person should know, or nothing when every sentence is the one the model was trained with."""
        if not self.own:
            return ""
        which = "effort, tool declarations and the like" if len(self.own) == len(OWN) else ", ".join(self.own)
        return (
            f"{which}: the prompt uses Whimbrel's own wording, because {self.source} does not hold the "
            "sentences of the release (its encoder file has them; WHIMBREL_KIMI_CHAT_TEMPLATE names another)"
        )

    def effort(self, value: str) -> str:
        return fill(self.templates[f"thinking-effort {value}"], value)

    def tool_choice(self, value: str) -> str:
        return fill(self.templates[f"tool-choice {value}"], "")

    def json_object(self) -> str:
        return fill(self.templates["response-format json_object"], "")

    def json_schema(self, schema: str) -> str:
        return fill(self.templates["response-format json_schema"], schema)

    def tool_declare(self, tools: str) -> str:
        return fill(self.templates["tool-declare"], tools)

    def dynamic_tool_declare(self, tools: str) -> str:
        return fill(self.templates["dynamic tool-declare"], tools)


def own_sentences(source: str = "this checkpoint") -> Sentences:
    return Sentences(OWN, source, tuple(OWN))


def load_sentences(folder: Path, chat_template: Path | None = None) -> Sentences:
    """The sentences of a checkpoint, or of the file that the person named instead.

    A checkpoint that Whimbrel made itself holds our own wording; there it is the right one.

    Raises:
        ConfigError: the named file cannot be read.
    """
    if chat_template is not None:
        files: Iterable[Path] = (chat_template,)
        source = str(chat_template)
    else:
        files = _encoder_files(folder)
        source = str(folder)
    missing_is_error = chat_template is not None
    found: dict[str, Template] = {}
    ours: dict[str, Template] = {}
    for path in files:
        templates = find_templates(path, must_exist=missing_is_error)
        found |= {name: each for name, each in _matching(templates, RELEASED).items() if name not in found}
        if len(found) == len(PROBES):
            break
        ours |= _matching(templates, hashes_of(OWN))
    if not found and len(ours) == len(PROBES):
        return Sentences(ours, source)
    own = tuple(name for name in PROBES if name not in found)
    return Sentences({**OWN, **found}, source, own)


def sentences_from(path: Path, hashes: Hashes) -> dict[str, Template]:
    """What of ``hashes`` the string literals of one file hold."""
    return _matching(find_templates(path, must_exist=True), hashes)


def _encoder_files(folder: Path) -> list[Path]:
    scripts = sorted(folder.glob("*.py"), key=lambda path: (not path.name.startswith("encoding"), path.name))
    return [*scripts, *(path for path in (folder / "chat_template.jinja",) if path.is_file())]


def _matching(templates: Iterable[Template], hashes: Hashes) -> dict[str, Template]:
    """Sentences whose probe body has the right length and hash."""
    found: dict[str, Template] = {}
    pieces: list[str] = []
    for template in templates:
        if len(template) == 1 and template[0] is not HOLE:
            pieces.append(str(template[0]))
        _check(template, hashes, found)
    if len(pieces) > _MOST_PIECES:
        return found  # no encoder file has so many, and pairs of them would take for ever
    for name in [name for name in hashes if name not in found]:
        _check_pairs(name, pieces, hashes, found)
    return found


def _check(template: Template, hashes: Hashes, found: dict[str, Template]) -> None:
    for name, (length, digest) in hashes.items():
        if name in found:
            continue
        body = fill(template, PROBES[name]).encode("utf-8", "surrogatepass")
        if len(body) == length and hashlib.sha256(body).hexdigest() == digest:
            found[name] = template


def _check_pairs(name: str, pieces: list[str], hashes: Hashes, found: dict[str, Template]) -> None:
    """Bodies put together at run time: two literals around (or before) the value, line by line."""
    length, value = hashes[name][0], PROBES[name]
    hole: Template = (HOLE,) if value else ()
    fenced: Template = ("\n\n```json\n", *hole, "\n```")
    # (before the first literal, between the two, after the second)
    shapes: list[tuple[str, Template, Template]] = [
        ("", hole, ()),
        ("", ("\n",), ()),
        ("", ("\n", *hole), ()),
    ]
    shapes += [(start, middle, ()) for start in ("", "# Tools\n") for middle in (fenced, ("\n", *fenced))]
    if value:
        shapes += [("", (), hole), ("", ("\n",), hole)]
        shapes += [(start, between, fenced) for start in ("", "# Tools\n") for between in ((), ("\n",))]
    sizes: dict[int, list[str]] = {}
    for piece in {*pieces, ""}:
        sizes.setdefault(len(piece.encode("utf-8", "surrogatepass")), []).append(piece)
    for start, middle, end in shapes:
        fixed = len(start + fill(middle, value) + fill(end, value))
        for size, firsts in sizes.items():
            for first in firsts:
                for second in sizes.get(length - fixed - size, ()):
                    _check((start + first, *middle, second, *end), {name: hashes[name]}, found)
                    if name in found:
                        return
