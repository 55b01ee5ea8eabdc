"""What OpenAI-compatible servers want differently, as data: one row per family.

Nothing here is taken on trust at run time: what a server refuses is left out or said
another way (``learned``), and what a probe found out about it comes first (``profile``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Every value of ``reasoning_effort`` seen in the field, from least to most thinking."""

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Dialect:
    """One family of servers."""

    prefix: str
    """Of model strings."""
    title: str
    url: str = ""
    """Default address; empty: it must be given."""
    keys: tuple[str, ...] = ()
    """Environment variables of the key, after WHIMBREL_API_KEY."""
    needs_key: bool = False
    """Whether the default address takes nobody without a key."""
    hosts: tuple[str, ...] = ()
    """Host names by which an address is recognised."""
    owners: tuple[str, ...] = ()
    """``owned_by`` in its list of models, by which a server is recognised."""
    reasoning_field: str = "reasoning_content"
    """Input name of thinking, until the server itself has shown one."""
    must_return: bool = False
    """Whether an assistant message with calls must carry its thinking, an empty one included."""
    tiers: Mapping[str, Fields] = field(default_factory=dict[str, Fields])
    """Request fields for low, high, max and off (thinking switched off)."""
    always: Fields = field(default_factory=dict[str, Any])
    """Request fields that go with every step."""
    token_cap: str = ""
    """Field of a hard cap on thinking tokens; sent only once a probe found that it is taken."""
    output_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    least_output: int = 0
    """Fewer output tokens than this are never asked for (thinking counts against them)."""
    structured: Literal["response_format", "structured_outputs"] = "response_format"


def _template(tier: str) -> dict[str, Any]:
    """What chat templates of open models read; each ignores the names it does not know."""
    if tier == "off":
        return {"enable_thinking": False, "thinking": False}
    # preserve_thinking: Qwen's template otherwise drops older rounds, which also breaks the prefix cache.
    return {"enable_thinking": True, "thinking": True, "thinking_effort": tier, "preserve_thinking": True}


def _open_weights(tier: str) -> dict[str, Any]:
    if tier == "off":
        return {"reasoning_effort": "none", "chat_template_kwargs": _template(tier)}
    return {
        "reasoning_effort": tier,
        "thinking_budget": tier,
        "chat_template_kwargs": _template(tier),
    }


_TIERS = ("low", "high", "max", "off")
_PLAIN: dict[str, Fields] = {
    "low": {"reasoning_effort": "low"},
    "high": {"reasoning_effort": "high"},
    "max": {"reasoning_effort": "xhigh"},
    "off": {"reasoning_effort": "none"},
}

DIALECTS: Mapping[str, Dialect] = {
    dialect.prefix: dialect
    for dialect in (
        Dialect(
            "openai",
            "OpenAI, or any server that follows it",
            url="https://api.openai.com/v1",
            keys=("OPENAI_API_KEY",),
            needs_key=True,
            hosts=("api.openai.com",),
            tiers=_PLAIN,
        ),
        Dialect(
            "vllm",
            "vLLM",
            url="http://127.0.0.1:8000/v1",
            keys=("VLLM_API_KEY",),
            owners=("vllm", "whimbrel"),  # `whimbrel serve` speaks as vLLM does
            reasoning_field="reasoning",
            tiers={tier: _open_weights(tier) for tier in _TIERS},
            token_cap="thinking_token_budget",
            structured="structured_outputs",
        ),
        Dialect(
            "sglang",
            "SGLang",
            url="http://127.0.0.1:30000/v1",
            keys=("SGLANG_API_KEY",),
            owners=("sglang",),
            tiers={tier: _open_weights(tier) for tier in _TIERS},
            always={"separate_reasoning": True, "stream_reasoning": True},
        ),
        Dialect(
            "llamacpp",
            "llama.cpp's server",
            url="http://127.0.0.1:8080/v1",
            keys=("LLAMACPP_API_KEY",),
            owners=("llamacpp",),
            tiers={
                tier: {"chat_template_kwargs": {**_template(tier), **effort}}
                for tier in _TIERS
                for effort in ({} if tier == "off" else {"reasoning_effort": tier},)
            },
        ),
        Dialect(
            "deepseek",
            "DeepSeek",
            url="https://api.deepseek.com/v1",
            keys=("DEEPSEEK_API_KEY",),
            needs_key=True,
            hosts=("api.deepseek.com",),
            owners=("deepseek",),
            must_return=True,
            tiers={
                "low": {"thinking": {"type": "enabled"}, "reasoning_effort": "low"},
                "high": {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
                "max": {"thinking": {"type": "enabled"}, "reasoning_effort": "max"},
                "off": {"thinking": {"type": "disabled"}},
            },
        ),
        Dialect(
            "kimi-api",
            "Kimi (Moonshot AI)",
            url="https://api.moonshot.ai/v1",
            keys=("MOONSHOT_API_KEY", "KIMI_API_KEY"),
            needs_key=True,
            hosts=("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"),
            owners=("moonshot",),
            must_return=True,
            tiers={
                "low": {"reasoning_effort": "low"},
                "high": {"reasoning_effort": "high"},
                "max": {"reasoning_effort": "max"},
                "off": {"thinking": {"type": "disabled"}},
            },
            least_output=16_000,
        ),
        Dialect(
            "openrouter",
            "OpenRouter",
            url="https://openrouter.ai/api/v1",
            keys=("OPENROUTER_API_KEY",),
            needs_key=True,
            hosts=("openrouter.ai",),
            reasoning_field="reasoning",
            tiers={
                "low": {"reasoning": {"effort": "low"}},
                "high": {"reasoning": {"effort": "high"}},
                "max": {"reasoning": {"effort": "xhigh"}},
                "off": {"reasoning": {"enabled": False}},
            },
            always={"usage": {"include": True}},
        ),
        Dialect(
            "ollama",
            "Ollama",
            url="http://127.0.0.1:11434/v1",
            keys=("OLLAMA_API_KEY",),
            owners=("library",),
            reasoning_field="reasoning",
            tiers={**_PLAIN, "max": {"reasoning_effort": "max"}},
        ),
    )
}

TOKEN_CAPS: Mapping[str, int] = {"low": 2_048, "high": 16_384, "max": 65_536}
"""Thinking tokens per tier where a server takes a hard cap."""

ANSWER_RESERVE = 4_096
"""Tokens of an output limit that thinking must leave for the answer."""


def recognise(host: str, owner: str = "") -> Dialect:
    """The family of a server by its host name or by who owns its models; else the plain form."""
    for dialect in DIALECTS.values():
        if host.lower() in dialect.hosts or (owner and owner.lower() in dialect.owners):
            return dialect
    return DIALECTS["openai"]


def nearest_effort(wanted: str, allowed: tuple[str, ...]) -> str | None:
    """The allowed value nearest to the wanted one, the lesser of two equally near."""
    known = [value for value in allowed if value in EFFORTS]
    if wanted not in EFFORTS or not known:
        return None
    at = EFFORTS.index(wanted)
    return min(known, key=lambda value: (abs(EFFORTS.index(value) - at), EFFORTS.index(value)))


def structured_forms(
    dialect: Dialect, schema: dict[str, Any], name: str = "answer"
) -> dict[str, dict[str, Any]]:
    """Request fields that make the answer a JSON value of this schema, by name; the likeliest form first."""
    wrapped = {"name": name, "schema": schema, "strict": True}
    forms: dict[str, dict[str, Any]] = {
        "structured_outputs": {"structured_outputs": {"json": schema}},
        "json_schema": {"response_format": {"type": "json_schema", "json_schema": wrapped}},
        "json_object": {"response_format": {"type": "json_object", "schema": schema}},
    }
    if dialect.structured != "structured_outputs":
        del forms["structured_outputs"]
    return forms
