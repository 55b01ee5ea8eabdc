"""A conversation with everything in it, told by hand so that every picture of it is the same."""

from __future__ import annotations

from typing import Any

from whimbrel.app.fix.events import JobEvent

DIFF = """\
--- a/tally.py
+++ b/tally.py
@@ -11,6 +11,6 @@
 def most_common(words):
     best, most = None, 0
     for word, count in tally(words).items():
-        if count < most:
+        if count > most:
             best, most = word, count
     return best
"""
PATCH = f"diff --git a/tally.py b/tally.py\n{DIFF}"
ANSWER = """\
The comparison in `most_common` is the wrong way round.

| word | 数え | expected |
|---|---|---|
| `b` | 2 | **b** |
| `[/red]` | 1 | none |

```python
if count > most:  # was: count < most
    best, most = word, count
```

- one test failed before, none now
- 日本語 and `mixed コード` keep their places
"""


def agent(**data: Any) -> JobEvent:
    return JobEvent("agent", data=data)


def call(
    number: int, name: str, permission: str, arguments: dict[str, Any], **finished: Any
) -> list[JobEvent]:
    call_id = f"c{number}"
    return [
        agent(
            kind="tool_started", call_id=call_id, name=name, permission=permission, arguments=arguments
        ),
        agent(
            kind="tool_finished", call_id=call_id, name=name, artifacts=(), duration_s=0.4,
            **{"data": None, "is_error": False, **finished},
        ),
    ]  # fmt: skip


RESULT: dict[str, Any] = {
    "status": "fixed", "exit_code": 0, "message": "1 test that failed passes now, and nothing that passed before fails",
    "hint": "", "tests_before": {"summary": "2 passed, 1 failed"}, "tests_after": {"summary": "3 passed"},
    "files": [{"path": "tally.py", "status": "M", "is_test": False}], "applied": False, "notes": [],
    "patch": PATCH, "output": "", "session_id": "", "explanation": "`most_common` compared with the wrong operator.",
    "sandbox": {"kind": "docker", "isolated": True, "image": "whimbrel/python:3.12", "workdir": "/work", "warnings": []},
}  # fmt: skip


def events() -> list[JobEvent]:
    """One repair from its beginning to its end."""
    return [
        JobEvent("phase", "Set up", phase="set_up"),
        JobEvent("info", "sandbox docker, Python 3.12 from pyproject.toml, base 0123456789ab"),
        JobEvent("phase", "Work", phase="work"),
        agent(kind="step_started", step=1, effort="high", reason="planning"),
        agent(kind="reasoning_delta", text="The test says that b should win; something compares wrongly. [/red]"),
        agent(kind="text_delta", text="Running the tests to see what fails."),
        *call(1, "run_tests", "execute", {}, text="2 passed, 1 failed (exit code 1, evidence row 1)",
              data={"counts": {"passed": 2, "failed": 1}, "exit_code": 1, "failing": ["test_tally.py::test_b"]}),
        *call(2, "bash", "execute", {"command": "grep -n 'count <' tally.py"}, text="14:        if count < most:\n"),
        *call(3, "read", "read", {"path": "missing [foo].py"}, text="no such file: missing [foo].py", is_error=True),
        agent(kind="usage", input_tokens=18_400, output_tokens=620, cached_tokens=15_000, cost_usd=0.012),
        agent(kind="step_started", step=2, effort="max", reason="patching a failure"),
        *call(4, "edit", "write", {"path": "tally.py", "old": "count < most", "new": "count > most"}, text=DIFF,
              data={"path": "tally.py", "diff": DIFF}),
        agent(kind="step_started", step=3, effort="low", reason="summing up"),
        agent(kind="text_delta", text=ANSWER),
        agent(kind="run_finished", status="answered", text=ANSWER, steps=3,
              usage={"input_tokens": 40_000, "output_tokens": 1_900, "cached_tokens": 30_000, "cost_usd": 0.031}),
        JobEvent("phase", "Verify", phase="verify"),
        JobEvent("info", "after: 3 passed"),
        JobEvent("result", data=RESULT),
    ]  # fmt: skip
