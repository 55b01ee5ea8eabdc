"""Where a model of the Messages form lives."""

from __future__ import annotations

from collections.abc import Mapping

from ...sandbox.base.errors import ConfigError
from ..remote.endpoint import Endpoint, resolve

OFFICIAL_URL = "https://api.anthropic.com"


def resolve_anthropic(model: str, url: str, environ: Mapping[str, str]) -> Endpoint:
    """The address checked as for any remote model; the key is ANTHROPIC_API_KEY.

    Raises:
        ConfigError: unusable URL, plain HTTP to another machine, or a key that is missing.
    """
    named = (
        url or environ.get("WHIMBREL_BASE_URL", "").strip() or environ.get("ANTHROPIC_BASE_URL", "").strip()
    )
    endpoint = resolve("anthropic", model, named or OFFICIAL_URL, environ)
    if endpoint.api_key is None and endpoint.base_url.startswith(f"{OFFICIAL_URL}/"):
        raise ConfigError("no key for api.anthropic.com", hint="set ANTHROPIC_API_KEY or WHIMBREL_API_KEY")
    return endpoint
