"""Chat files of checkpoints that we make ourselves: an encoder file and a template in our own wording."""

from __future__ import annotations

from typing import Final

from .literals import HOLE
from .sentences import OWN

ENCODER_FILE: Final = "encoding_k3.py"

TINY_TEMPLATE: Final = (
    "{%- if tools -%}<|im_system|>tools<|im_middle|>{{ tools | tojson }}<|im_end|>{%- endif -%}"
    "{%- for message in messages -%}"
    "{%- if message.role == 'user' -%}<|im_user|>user<|im_middle|>"
    "{%- elif message.role == 'assistant' -%}<|im_assistant|>assistant<|im_middle|>"
    "{%- elif message.role == 'tool' -%}<|im_system|>{{ message.name or 'tool' }}<|im_middle|>"
    "{%- else -%}<|im_system|>system<|im_middle|>{%- endif -%}"
    "{%- if message.role == 'tool' -%}## Return of {{ message.tool_call_id }}\n{% endif -%}"
    "{{ message.content }}"
    "{%- if message.tool_calls -%}<|tool_calls_section_begin|>"
    "{%- for call in message.tool_calls -%}"
    "<|tool_call_begin|>{{ call.id }}<|tool_call_argument_begin|>"
    "{{ call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}"
    "<|tool_call_end|>"
    "{%- endfor -%}<|tool_calls_section_end|>{%- endif -%}"
    "<|im_end|>"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|>{%- endif -%}"
)


def encoder_source() -> str:
    """A Python file whose string literals hold our own sentences; it is read, never run."""
    lines = [
        '"""Sentences of the message language in our own wording, by `whimbrel engine tiny`."""',
        "",
    ]
    written: list[str] = []
    for name, template in OWN.items():
        if name.startswith("thinking-effort"):
            name = "thinking-effort"
        function = name.replace("-", "_").replace(" ", "_")
        if function in written:
            continue
        written.append(function)
        body = " + ".join("value" if part is HOLE else repr(part) for part in template)
        lines += ["", f"def {function}(value=''):", f"    return {body}", ""]
    return "\n".join(lines)
