"""The themes one can choose: two of our own, a few well-known ones, and two in the terminal's colours."""

from __future__ import annotations

import os

from textual.theme import Theme

NIGHT = Theme(
    name="whimbrel-night", dark=True,
    primary="#7aa2c4", secondary="#8fb8a8", accent="#d9b27c", foreground="#d6d9d4", background="#14181b",
    surface="#191e22", panel="#20272c", success="#8fb573", warning="#d9a662", error="#d77f79",
    variables={"border": "#33404a", "border-blurred": "#262f36", "footer-key-foreground": "#d9b27c",
               "footer-background": "#14181b", "block-cursor-background": "#7aa2c4"},
)  # fmt: skip
DAY = Theme(
    name="whimbrel-day", dark=False,
    primary="#2f6690", secondary="#3d7a64", accent="#9a5b13", foreground="#23292d", background="#f7f5f0",
    surface="#efece4", panel="#e6e2d8", success="#3f7a2e", warning="#96620b", error="#b0352f",
    variables={"border": "#c4bfb1", "border-blurred": "#d9d4c7", "footer-key-foreground": "#9a5b13",
               "footer-background": "#f7f5f0"},
)  # fmt: skip
OWN = (NIGHT, DAY)

NAMES = (
    "whimbrel-night", "whimbrel-day", "nord", "gruvbox", "tokyo-night", "catppuccin-mocha",
    "catppuccin-latte", "solarized-light", "rose-pine-dawn", "ansi-dark", "ansi-light",
)  # fmt: skip
"""In the order in which they are offered; the last two use only the sixteen colours of the terminal."""


def chosen(wanted: str) -> str:
    """The theme to begin with: the one of the settings, else by what the terminal can show."""
    if wanted in NAMES:
        return wanted
    # Colour depth and background as terminals tell them; where they do not, dark is the usual.
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    light = background.isdigit() and int(background) in (7, 15)
    rich = os.environ.get("COLORTERM", "") in ("truecolor", "24bit")
    if not rich and os.environ.get("TERM", "") in ("linux", "xterm", "ansi", "vt100", "screen"):
        return "ansi-light" if light else "ansi-dark"
    return "whimbrel-day" if light else "whimbrel-night"
