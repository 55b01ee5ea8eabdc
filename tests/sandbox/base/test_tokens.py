"""Keys are masked by their form and in every encoding; ordinary code and hashes stay readable."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from whimbrel.app.agent.cleaning import StreamCleaner
from whimbrel.engine.chat import TextDelta
from whimbrel.sandbox.base.secrets import redact, redact_bytes
from whimbrel.sandbox.base.tokens import mask, mask_bytes, mask_json

SECRET = 'p@ss/w+rd "canary" é=42?'
ENVIRON = {"SERVICE_PASSWORD": SECRET}
# Put together here, so that no file of ours looks as if it held a key.
BODY = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
TOKENS = {
    "github-token": "ghp_" + BODY,
    "github-token ": "github_pat_" + BODY,
    "gitlab-token": "glpat-" + BODY[:20],
    "api-key": "sk-proj-" + BODY,
    "api-key ": "sk-" + "0123456789abcdef" * 2,
    "aws-key-id": "AKIA" + "IOSFODNN7EXAMPL3",
    "slack-token": "xoxb-" + "1234567890-abcdef",
    "npm-token": "npm_" + BODY,
    "hugging-face-token": "hf_" + BODY,
    "google-key": "AIza" + BODY[:35],
    "jwt": ".".join(("eyJ" + BODY, "eyJ" + BODY, BODY)),
    "private-key": "-----BEGIN RSA PRIVATE " + f"KEY-----\n{BODY}\n{BODY}\n-----END RSA PRIVATE KEY-----",
}


def forms() -> dict[str, str]:
    raw = SECRET.encode()
    return {
        "plain": SECRET,
        "upper case": SECRET.upper().replace("É", "é"),
        "json": json.dumps(SECRET),
        "json, as it is": json.dumps(SECRET, ensure_ascii=False),
        "url": "https://x.invalid/?p=" + quote(SECRET, safe=""),
        "form": quote_plus(SECRET),
        "hex": raw.hex(),
        "HEX": raw.hex().upper(),
        "base64": base64.b64encode(raw).decode(),
        "base64, one before": base64.b64encode(b":" + raw + b";").decode(),
        "base64, two before": base64.b64encode(b"u:" + raw).decode(),
        "base64, for urls": base64.urlsafe_b64encode(b"user:" + raw).decode(),
    }


@pytest.mark.parametrize("name", forms())
def test_a_secret_is_found_in_every_encoding(name: str) -> None:
    text = f"before {forms()[name]} after"
    for shown in (redact(text, ENVIRON), redact_bytes(text.encode(), ENVIRON).decode()):
        assert "[redacted:SERVICE_PASSWORD]" in shown
        assert shown.startswith("before ") and shown.endswith(" after")


@pytest.mark.parametrize("kind", TOKENS)
def test_a_key_is_known_by_its_form(kind: str) -> None:
    token = TOKENS[kind]
    for text in (f"error: '{token}' was refused", f"TOKEN={token}\n", json.dumps({"a": [token]})):
        marked = f"[redacted:{kind.strip()}]"
        if "\n" in token and text.startswith("{"):
            continue
        assert marked in mask(text, {}) and token not in mask(text, {})
        assert marked in mask_bytes(b"\xff" + text.encode(), {}).decode("latin-1")
    assert mask_json({"k": (token, 1)}, {}) == {"k": [f"[redacted:{kind.strip()}]", 1]}


def test_credentials_in_addresses_and_headers_are_masked_and_the_rest_stays() -> None:
    assert mask("git clone https://me:hunter22@host.invalid/x", {}) == "git clone https://me:[redacted:password]@host.invalid/x"
    assert mask(f"Authorization: Bearer {BODY}", {}) == "Authorization: Bearer [redacted:credential]"


def test_ordinary_code_and_hashes_stay_as_they_are() -> None:
    here = Path(__file__).resolve().parents[3]
    sources = [path.read_text(encoding="utf-8") for part in ("app", "sandbox", "engine") for path in (here / part).rglob("*.py")]
    ordinary = "\n".join(
        [
            *sources,
            hashlib.sha256(b"x").hexdigest(), hashlib.sha512(b"y").hexdigest(),
            base64.b64encode(bytes(range(256))).decode(), "sha256-" + base64.b64encode(hashlib.sha256(b"z").digest()).decode(),
            ".sk-toggleable__content.fitted-label_hidden--control { }", "task-1234567890-1234567890-1234567890",
            "class AKIATest: pass", "http://host:8080/path", "postgres://user:$PASSWORD@db", "https://{user}:{password}@host",
            "eyJ is how a token begins", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "f(x, key=sk_learn_model_selection)", "uuid 123e4567-e89b-12d3-a456-426614174000",
        ]
    )  # fmt: skip
    assert mask(ordinary, {}) == ordinary


@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_key_that_is_streamed_in_pieces_never_shows(size: int) -> None:
    for token in (*TOKENS.values(), SECRET, base64.b64encode(SECRET.encode()).decode()):
        text = f"I will use {token} now, said the model."
        cleaner = StreamCleaner(ENVIRON)
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        shown = "".join(event.text for piece in pieces for event in cleaner.feed(TextDelta(text=piece)) if isinstance(event, TextDelta))
        assert "[redacted:" in shown and token not in shown and token[:16] not in shown
        assert shown.startswith("I will use ")
