"""Text of issues, tests and models made harmless: it may say anything, and must never act.

Each kind of report has its own ways to be escaped from: XML's forbidden characters, Markdown, HTML,
mentions and references that notify people or close issues, workflow commands of a CI runner.
"""

from __future__ import annotations

import re
import unicodedata

_XML_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_PUNCTUATION = re.compile(r"([\\`*_{}\[\]()#+!|~>-])")
_BREAK = "\u200b"
"""Zero-width space: takes a name or number apart for whoever looks for references, not for the eye."""


def plain(text: str) -> str:
    """Without terminal codes, control and invisible characters, and lone surrogates; lines stay."""
    text = _TERMINAL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(
        character
        for character in text
        if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    )


def one_line(text: str, most: int = 1000) -> str:
    """The same on one line of at most ``most`` characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def xml_text(text: str) -> str:
    """Without the characters that XML 1.0 forbids; escaping is the writer's part."""
    return _XML_FORBIDDEN.sub("", _TERMINAL.sub("", text))


def prose(text: str, most: int = 4000) -> str:
    """One paragraph of Markdown that shows ``text`` as it is: no markup, HTML, link, mention or reference."""
    line = one_line(text, most)
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = _PUNCTUATION.sub(r"\\\1", line)
    line = line.replace("@", f"@{_BREAK}").replace("://", f":{_BREAK}//")
    line = re.sub(r"#(?=\w)", f"#{_BREAK}", line)
    line = re.sub(r"(?i)\b(GH\\?-)(?=\d)", rf"\1{_BREAK}", line)
    line = re.sub(r"(?i)\bwww\.", f"www{_BREAK}.", line)
    # At the start of a line numbers make lists.
    return re.sub(r"^(\d+)([.)])", r"\1\\\2", line)


def code(text: str, most: int = 300) -> str:
    """An inline code span, whatever backticks the text holds; also inside of a table."""
    line = one_line(text, most).replace("|", "\u2223")
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fence(text: str, language: str = "", most: int = 50_000) -> str:
    """A fenced block that nothing in the text can close; cut visibly, at the end of a line."""
    body = plain(text)
    if len(body) > most:
        kept = body[:most].rpartition("\n")[0] or body[:most]
        body = f"{kept}\n[... {body.count(chr(10)) - kept.count(chr(10))} more lines ...]"
    ticks = "`" * max(3, _longest_run(body) + 1)
    return f"{ticks}{language}\n{body.rstrip(chr(10))}\n{ticks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def command_data(text: str) -> str:
    """The message of a workflow command: it stays on its line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(text: str) -> str:
    """The value of a property of a workflow command."""
    return command_data(text).replace(":", "%3A").replace(",", "%2C")
