"""Which licence a checkpoint comes under, and what the one of the Kimi K3 weights asks, in our words.

This is no legal advice and no copy of the licence: the file in the checkpoint's folder is what counts.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from ...sandbox.base.errors import ConfigError
from ...sandbox.base.files import read_regular

Kind = Literal["made here", "MIT", "Apache-2.0", "Kimi K3", "other", "none"]
ASKED: Final[frozenset[Kind]] = frozenset({"Kimi K3", "other"})
"""Kinds that have to be accepted. Where there is no text, there is nothing that could be."""

_FILES = ("LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE", "LICENCE.md", "LICENCE.txt", "COPYING")
_LIMIT = 1_000_000

TINY_LICENCE: Final = (
    "Random numbers made by `whimbrel engine tiny`.\n\n"
    "Nobody claims any right in this checkpoint: do with it what you like. It comes without any warranty.\n"
)

# Two well-known texts by the SHA-256 of their letters and digits (see _letters), from first to last words.
_MIT = "0cf21bdfd1964a97a8615e128534845826afbc887edc95aa5c925cbf64386b5c"
_APACHE = "d8221a4f10c01c6fa5390685929a5ce31d7264a024162fd3dd4d805c57ce0f43"

SUMMARY: Final = """\
The Kimi K3 licence (c) 2026 Moonshot AI, in our words; the LICENSE file of the checkpoint is what counts,
and this is no legal advice.

 - You may use, change, merge, fine-tune, host, sell and sublicense the weights, the configuration, the code
   and the documents. Keep the copyright and permission notice, and obey the law.
 - Offering the model as a service to third parties (inference or fine-tuning, for example by an API, where
   they control inputs, parameters or training data) needs a separate agreement with Moonshot AI before any
   commercial use, once you and your affiliates together have passed 20 million US dollars of revenue in any
   12 consecutive months. A product that embeds the model in particular features, and passing requests on to
   a model that others host, are not such a service.
 - A commercial product with more than 100 million users a month, or more than 20 million US dollars of
   revenue a month, must show "Kimi K3" prominently in its interface.
 - Neither of the two applies to purely internal use, where nothing (outputs included) is offered to third
   parties, nor to use by way of Moonshot's own products or its certified partners.
 - There is no warranty and no liability.
"""

QUESTIONS: Final = (
    "Is all use internal, with nothing offered to third parties (not the outputs either)?\n"
    "Or does it go through Moonshot's own products or a certified partner?\n"
    "Either: nothing more is asked of you.",
    "Do you offer third parties inference or fine-tuning, with real control of inputs, parameters\n"
    "or training data? And have you and your affiliates passed 20 million US dollars of revenue\n"
    "in any 12 consecutive months?\n"
    "Both: you need a separate agreement with Moonshot AI before any commercial use.",
    "Has your commercial product more than 100 million users a month, or more than 20 million\n"
    "US dollars of revenue a month?\n"
    'Either: show "Kimi K3" prominently in its interface.',
)
"""They decide whether a separate agreement is needed."""


@dataclass(frozen=True)
class Licence:
    """What a checkpoint comes under.

    Args:
        digest: SHA-256 of the licence's text (of our summary where a Kimi K3 checkpoint has no file).
        file: where the text is, if anywhere.
    """

    kind: Kind
    digest: str
    file: Path | None

    @property
    def needs_acceptance(self) -> bool:
        return self.kind in ASKED

    @property
    def name(self) -> str:
        return {
            "made here": "none (random numbers of `whimbrel engine tiny`)",
            "Kimi K3": "Kimi K3 License",
            "other": "a licence of its own",
            "none": "no licence file",
        }.get(self.kind, self.kind)


def licence_of(folder: Path) -> Licence:
    """The licence of a checkpoint folder.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = next((folder / name for name in _FILES if (folder / name).is_file()), None)
    kimi = _is_kimi(folder)
    if path is None:
        # Weights of the release that came without their file are under its terms all the same.
        digest = hashlib.sha256((SUMMARY if kimi else "no licence file").encode()).hexdigest()
        return Licence("Kimi K3" if kimi else "none", digest, None)
    try:
        if path.stat().st_size > _LIMIT:
            raise ConfigError(f"{path} is too large to be a licence")
        content = read_regular(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    text = content.decode("utf-8", "replace")
    return Licence(_kind(text, kimi), hashlib.sha256(content).hexdigest(), path)


def _kind(text: str, kimi: bool) -> Kind:
    if text.split() == TINY_LICENCE.split():
        return "made here"
    letters = _letters(text)
    if _is_exactly(letters, _MIT, "permission is hereby granted", "dealings in the software"):
        return "MIT"
    # The text ends with how to apply it to a work, or with the notice of the work it was applied to.
    after = ("appendix", "copyright")
    if _is_exactly(letters, _APACHE, "terms and conditions for use", "end of terms and conditions", *after):
        return "Apache-2.0"
    return "Kimi K3" if kimi or "kimi k3" in letters else "other"


def _is_exactly(letters: str, digest: str, first: str, last: str, *after: str) -> bool:
    """Whether a text is a known one and nothing else: a title and names before it, an appendix after it.

    A modified licence (extra conditions before, inside or after) is not the one it was made from.
    """
    start, end = letters.find(first), letters.rfind(last)
    if start < 0 or end < start or start > 300:
        return False
    body, rest = letters[start : end + len(last)], letters[end + len(last) :].strip()
    if rest and not (after and rest.startswith(after) and len(rest) < 1500):
        return False
    return hashlib.sha256(body.encode()).hexdigest() == digest


def _letters(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def _is_kimi(folder: Path) -> bool:
    try:
        config: Any = json.loads(read_regular(folder / "config.json"))
    except (OSError, ValueError, RecursionError):
        return False
    raw = cast(dict[str, Any], config) if isinstance(config, dict) else {}
    text: Any = raw.get("text_config")
    sizes = cast(dict[str, Any], text) if isinstance(text, dict) else {}
    # The vendor's weights have the vendor's width; another model of the same kind is somebody else's.
    released = sizes.get("hidden_size") == 7168
    return raw.get("model_type") in ("kimi_k3", "kimi_k31") and released
