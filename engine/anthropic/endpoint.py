"""Where a model of the Messages form lives."""

from __future__ import annotations

from collections.abc import Mapping

from ..remote.dialects import Dialect
from ..remote.endpoint import Endpoint, StoredKey, resolve

HOST = "api.anthropic.com"
_FAMILY = Dialect(
    "anthropic",
    "Anthropic",
    url=f"https://{HOST}/v1",
    keys=("ANTHROPIC_API_KEY",),
    needs_key=True,
    hosts=(HOST,),
)


def resolve_anthropic(
    model: str, url: str, environ: Mapping[str, str], stored_key: StoredKey | None = None
) -> Endpoint:
    """The address and key, as for any remote model; without an address ANTHROPIC_BASE_URL or the original.

    Raises:
        ConfigError: unusable URL, plain HTTP to another machine, a key that is missing, or a bad setting.
    """
    named = url or environ.get("ANTHROPIC_BASE_URL", "").strip()
    return resolve("anthropic", model, named, environ, stored_key, _FAMILY)
