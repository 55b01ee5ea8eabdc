"""What one endpoint has refused so far, and how it is asked since."""

from __future__ import annotations

import re
from typing import Any, Literal

from .decode import REASONING_FIELDS
from .dialects import EFFORTS, nearest_effort
from .failures import Failure, RemoteError

ContentForm = Literal["null", "empty", "missing"]
"""Of ``content`` beside tool calls without text."""

_FORMS: tuple[ContentForm, ...] = ("null", "empty", "missing")
CORE = frozenset({"messages", "tools", "tool_choice", "stream", "model"})
"""Request fields that cannot be left out."""
_EXTRAS = frozenset({"separate_reasoning", "stream_reasoning", "usage"})
"""What some families take beside that, and strict servers of no family do not."""
THINKING = frozenset(
    {
        "reasoning_effort",
        "reasoning",
        "thinking",
        "thinking_budget",
        "thinking_token_budget",
        "chat_template_kwargs",
    }
)

_MUST = re.compile(
    r"(?:must|need|has|have|should|required) (?:to )?(?:be )?"
    r"(?:passed|returned|sent|provided|included|present)"
    r"|passed back|is missing|is required|field required|missing (?:field|required)",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|not permitted|not allowed|unexpected"
    r"|extra (?:inputs|fields)|additional propert",
    re.IGNORECASE,
)
_FIELD_WORD = re.compile(r"field|parameter|propert|argument|input|key|option|chat_template", re.IGNORECASE)
_VALUE = re.compile(r"value|one of|should be|must be|invalid|literal_error", re.IGNORECASE)
_NUMBER = re.compile(r"\b(?:int|integer|number)\b", re.IGNORECASE)
_TOO_MUCH = re.compile(
    r"max_(?:completion_)?tokens.{0,60}(?:too large|too high|at most|less than|exceed|maximum|between)"
    r"|(?:too large|exceeds?).{0,60}max_(?:completion_)?tokens|supports at most \d+ completion tokens",
    re.IGNORECASE,
)
_CONTENT = re.compile(r"(?<![A-Za-z0-9_])content(?![A-Za-z0-9_-])", re.IGNORECASE)
_CONTENT_FAULT = re.compile(
    r"empty|null|none|string|required|missing|must|should|blank|length|non.?zero|at least|no attribute",
    re.IGNORECASE,
)
_NAMED_REASONING = re.compile(r"(?<![A-Za-z0-9_])(reasoning_content|reasoning)(?![A-Za-z0-9_])")


class Learned:
    """Grows with each refusal; every lesson can be learnt only once, so asking again always ends."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        """Request fields left out for good."""
        self.output_limit = ""
        """Name of the output limit, when the dialect's is refused."""
        self.content: ContentForm = "null"
        self.must_return: bool | None = None
        """None: as the dialect says."""
        self.reasoning_field = ""
        """Input name of thinking that the endpoint asked for."""
        self.refused_reasoning: set[str] = set()
        """Input names of thinking that the endpoint does not take."""
        self._instead: dict[str, dict[str, str]] = {}
        self._tried_content: set[ContentForm] = {"null"}

    def learn(self, error: RemoteError, body: dict[str, Any]) -> str:
        """What to tell the person when asking again may help now, or an empty string."""
        text = error.detail
        if error.failure is Failure.CONTEXT_OVERFLOW:
            return self._about_output(text, body)
        bare = text.strip(" '\"\n")
        if bare in EFFORTS and body.get("reasoning_effort") == bare:
            # A server that looks the value up in a table and does not find it says nothing else.
            return self._about_field("reasoning_effort", f"invalid value {bare}", body)
        if error.failure not in (Failure.BAD_REQUEST, Failure.UNSUPPORTED_PARAMETER):
            return ""
        lesson = self._about_reasoning(text, body)
        if not lesson and error.parameter in body and error.parameter not in CORE:
            lesson = self._about_field(error.parameter, text, body)
        if not lesson and error.failure is Failure.BAD_REQUEST:
            lesson = (
                self._about_output(text, body)
                or self._about_content(text, body)
                or self._about_something(text, body)
            )
        return lesson

    def apply(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Request fields without what is refused, with values that are taken."""
        kept = {key: value for key, value in fields.items() if key not in self.refused}
        for key, instead in self._instead.items():
            if isinstance(kept.get(key), str):
                kept[key] = _follow(kept[key], instead)
            elif isinstance(kept.get(key), dict) and "effort" in kept[key]:
                kept[key] = kept[key] | {"effort": _follow(kept[key]["effort"], instead)}
        return kept

    # ------------------------------------------------------------ one kind of refusal each

    def _about_reasoning(self, text: str, body: dict[str, Any]) -> str:
        named = _NAMED_REASONING.search(text)
        if named is None:
            return ""
        field = named[1]
        sent = {name for message in body.get("messages", ()) for name in REASONING_FIELDS if name in message}
        if _MUST.search(text) and (self.must_return is not True or self.reasoning_field != field):
            if field in self.refused_reasoning:
                return ""
            self.must_return, self.reasoning_field = True, field
            return f"the endpoint wants its thinking back as {field}; sending it from now on"
        if field in sent and field not in self.refused_reasoning and _UNKNOWN.search(text):
            self.refused_reasoning.add(field)
            if self.reasoning_field == field:
                self.reasoning_field, self.must_return = "", None
            return f"the endpoint does not take {field} in messages; going on without it"
        return ""

    def _about_field(self, field: str, text: str, body: dict[str, Any]) -> str:
        if field == "max_tokens" and "max_completion_tokens" in text and not self.output_limit:
            self.output_limit = "max_completion_tokens"
            return "the endpoint wants max_completion_tokens instead of max_tokens; going on with it"
        if field in self.refused:
            return ""
        value = body[field]
        effort = value.get("effort") if isinstance(value, dict) else value
        if isinstance(effort, str) and effort in EFFORTS and _VALUE.search(text):
            listed = tuple(word for word in re.findall(r"[a-z]+", text.lower()) if word in EFFORTS)
            other = nearest_effort(effort, tuple(word for word in listed if word != effort))
            if other is None and effort in ("xhigh", "max") and not _NUMBER.search(text):
                other = "high"
            if other is not None and effort not in self._instead.get(field, {}):
                self._instead.setdefault(field, {})[effort] = other
                return f"the endpoint does not take {field} {effort!r}; going on with {other!r}"
        gone = THINKING & set(body) if re.search(r"support (?:thinking|reasoning)\b", text, re.I) else {field}
        self.refused |= gone | {field}
        return f"the endpoint does not take {', '.join(sorted(gone | {field}))}; going on without it"

    def _about_output(self, text: str, body: dict[str, Any]) -> str:
        for field in ("max_tokens", "max_completion_tokens"):
            if field in body and field not in self.refused and _TOO_MUCH.search(text):
                self.refused.add(field)
                return f"the endpoint finds {field} too large; leaving the limit to it"
        return ""

    def _about_content(self, text: str, body: dict[str, Any]) -> str:
        bare = any(
            message.get("role") == "assistant" and message.get("tool_calls") and not message.get("content")
            for message in body.get("messages", ())
        )
        if not bare or not _CONTENT.search(text) or not _CONTENT_FAULT.search(text):
            return ""
        left: list[ContentForm] = [form for form in _FORMS if form not in self._tried_content]
        if not left:
            return ""
        # A key that is demanded, or a string, is better met by "" than by leaving it out.
        self.content = left[0]
        self._tried_content.add(self.content)
        shown = {"null": "null", "empty": "an empty string", "missing": "left out"}[self.content]
        return f"the endpoint refuses the content beside tool calls; it is {shown} from now on"

    def _about_something(self, text: str, body: dict[str, Any]) -> str:
        """A field is refused but not named: all that no standard knows go at once."""
        gone = ((THINKING | _EXTRAS) & set(body)) - self.refused
        if not gone or not (_UNKNOWN.search(text) and _FIELD_WORD.search(text)):
            return ""
        self.refused |= gone
        return f"the endpoint refuses a field it does not name; going on without {', '.join(sorted(gone))}"


def _follow(value: str, instead: dict[str, str]) -> str:
    seen: set[str] = set()
    while value in instead and value not in seen:
        seen.add(value)
        value = instead[value]
    return value
