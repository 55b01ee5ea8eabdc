"""Three small repositories and, for each, the steps of a capable model, written by hand.

The model thinks before every step, takes a wrong turn once, and calls tools side by side.
The server it speaks through refuses a history whose thinking is not, byte for byte, what it sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fix.conftest import Repo
from tests.mock_server import MockServer, Reply, Request, arguments_are_json, completion, every_call_answered

Calls = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class Case:
    """A repository with a fault and the steps that repair it."""

    name: str
    files: dict[str, str]
    issue: str
    steps: Sequence[tuple[str, Calls]]
    """Thinking and calls of each step; the answer follows the last one."""
    answer: str
    patched: dict[str, str]
    """A line that each changed file has in the end."""
    options: tuple[str, ...] = ()
    sent: dict[str, str] = field(default_factory=dict[str, str])

    def write(self, repo: Repo) -> Repo:
        for name, text in self.files.items():
            (repo.root / name).parent.mkdir(exist_ok=True)
            (repo.root / name).write_text(text, encoding="utf-8")
        return repo.commit()


LEDGER = Case(
    name="ledger",
    files={
        "ledger/__init__.py": "",
        "ledger/money.py": (
            "from decimal import Decimal\n\n\ndef cents(text):\n"
            '    """Cents in an amount like ``12.34``."""\n'
            "    return int(Decimal(text) * 10)\n\n\ndef euros(amount):\n"
            '    return f"{amount // 100}.{amount % 100:02d}"\n'
        ),
        "ledger/book.py": (
            "from .money import cents\n\n\nclass Book:\n    def __init__(self):\n        self.entries = []\n\n"
            "    def add(self, line):\n        name, _, amount = line.partition(':')\n"
            "        self.entries.append((name, cents(amount)))\n\n"
            "    def total(self, name):\n"
            "        return sum(amount for who, amount in self.entries if who is name)\n"
        ),
        "test_ledger.py": (
            "from ledger.book import Book\nfrom ledger.money import cents, euros\n\n\n"
            "def test_cents():\n    assert cents('12.34') == 1234\n\n\n"
            "def test_euros():\n    assert euros(1205) == '12.05'\n\n\n"
            "def test_totals_by_name():\n    book = Book()\n"
            "    for line in ('ann: 1.50', 'bob: 2.25', 'ann: 0.75'):\n        book.add(line)\n"
            "    assert book.total(''.join(['a', 'nn'])) == 225\n    assert book.total('bob') == 225\n"
        ),
    },
    issue="Totals of the ledger are wrong: amounts come out ten times too small, and names are not found.",
    steps=[
        (
            "The tests say what fails.",
            [("run_tests", {}), ("read", {"path": "ledger/money.py"}), ("read", {"path": "ledger/book.py"})],
        ),
        (
            "A hundred cents are one euro.",
            [
                (
                    "edit",
                    {"path": "ledger/money.py", "old": "Decimal(text) * 10)", "new": "Decimal(text) * 100)"},
                )
            ],
        ),
        ("", [("run_tests", {"tests": ["test_ledger.py::test_totals_by_name"]})]),
        (
            "Names are compared by identity.\n\tThat is the second fault. \u2713",
            [("edit", {"path": "ledger/book.py", "old": "if who is name)", "new": "if who == name)"})],
        ),
        ("Everything once more.", [("run_tests", {})]),
    ],
    answer="Two faults: cents multiplied by ten, and names were compared by identity. All tests pass now.",
    patched={"ledger/money.py": "* 100)", "ledger/book.py": "who == name"},
)

QUEUE = Case(
    name="queue",
    files={
        "jobs/__init__.py": "from .queue import Queue\n\n__all__ = ['Queue']\n",
        "jobs/queue.py": (
            "import heapq\n\n\nclass Queue:\n"
            '    """Jobs by priority, the most urgent (smallest) first; equal ones in order of arrival."""\n\n'
            "    def __init__(self):\n        self._heap = []\n\n"
            "    def put(self, priority, job):\n        heapq.heappush(self._heap, (priority, job))\n\n"
            "    def get(self):\n        return heapq.heappop(self._heap)[1]\n\n"
            "    def __len__(self):\n        return len(self._heap)\n"
        ),
        "tests/__init__.py": "",
        "tests/test_queue.py": (
            "import unittest\n\nfrom jobs import Queue\n\n\nclass QueueTest(unittest.TestCase):\n"
            "    def test_the_most_urgent_comes_first(self):\n        queue = Queue()\n"
            "        queue.put(5, 'later')\n        queue.put(1, 'now')\n"
            "        self.assertEqual(queue.get(), 'now')\n\n"
            "    def test_equal_ones_keep_their_order(self):\n        queue = Queue()\n"
            "        for job in ({'n': 1}, {'n': 2}, {'n': 0}):\n            queue.put(3, job)\n"
            "        self.assertEqual([queue.get()['n'] for _ in range(3)], [1, 2, 0])\n\n"
            "    def test_length(self):\n        self.assertEqual(len(Queue()), 0)\n"
        ),
    },
    issue="Queue.put raises TypeError: '<' not supported between instances of 'dict' and 'dict'.",
    steps=[
        ("Where is it?", [("search", {"pattern": "heappush"}), ("read", {"path": "jobs/queue.py"})]),
        (
            "A key of the job's text would do.",
            [
                (
                    "edit",
                    {"path": "jobs/queue.py", "old": "(priority, job))", "new": "(priority, str(job), job))"},
                ),
                (
                    "edit",
                    {
                        "path": "jobs/queue.py",
                        "old": "heappop(self._heap)[1]",
                        "new": "heappop(self._heap)[-1]",
                    },
                ),
            ],
        ),
        ("", [("run_tests", {})]),
        (
            "No: by arrival, not by text. A counter.",
            [
                (
                    "edit",
                    {
                        "path": "jobs/queue.py",
                        "old": "        heapq.heappush(self._heap, (priority, str(job), job))",
                        "new": "        self._count += 1\n"
                        "        heapq.heappush(self._heap, (priority, self._count, job))",
                    },
                ),
                (
                    "edit",
                    {
                        "path": "jobs/queue.py",
                        "old": "        self._heap = []",
                        "new": "        self._heap = []\n        self._count = 0",
                    },
                ),
            ],
        ),
        ("Now all of them.", [("run_tests", {})]),
    ],
    answer="Jobs of equal priority were compared with each other; a counter of arrivals decides now.",
    patched={"jobs/queue.py": "self._count += 1"},
)

BACKUP = Case(
    name="backup",
    files={
        "backup.sh": (
            "#!/bin/sh\n# Prints what would be copied: every .txt file below $1, sorted.\n"
            "for file in $(find $1 -name '*.txt' | sort); do\n  echo \"copy $file\"\ndone\n"
        ),
        "check.sh": (
            "#!/bin/sh\nset -e\nplace=$(mktemp -d)\ntrap 'rm -rf \"$place\"' EXIT\n"
            'mkdir "$place/my files"\ntouch "$place/my files/a b.txt" "$place/my files/c.txt" "$place/d.md"\n'
            'sh backup.sh "$place" > "$place/out"\n'
            'printf \'copy %s\\n\' "$place/my files/a b.txt" "$place/my files/c.txt" > "$place/want"\n'
            'cmp "$place/out" "$place/want"\n'
        ),
    },
    issue="backup.sh falls apart on file names with spaces.",
    steps=[
        (
            "A shell script; look at it.",
            [("read", {"path": "backup.sh"}), ("bash", {"command": "sh check.sh; echo $?"})],
        ),
        (
            "Word splitting of the command substitution: read lines instead.",
            [
                (
                    "edit",
                    {
                        "path": "backup.sh",
                        "old": "for file in $(find $1 -name '*.txt' | sort); do\n  echo \"copy $file\"\ndone",
                        "new": "find \"$1\" -name '*.txt' | sort | while IFS= read -r file; do\n"
                        '  echo "copy $file"\ndone',
                    },
                )
            ],
        ),
        ("", [("run_tests", {})]),
    ],
    answer="The list of files was split at spaces; it is read line by line now.",
    patched={"backup.sh": 'find "$1" -name'},
    options=("--tests", "sh check.sh"),
)

CASES = [LEDGER, QUEUE, BACKUP]


def serve(case: Case, *, field_name: str = "reasoning_content") -> MockServer:
    """A server that plays the case; the step follows from the answers in the history."""

    def script(request: Request) -> Reply:
        number = sum(message["role"] == "assistant" for message in request.messages)
        if number >= len(case.steps):
            return completion(text=case.answer, reasoning="Done.", reasoning_field=field_name)
        thinking, calls = case.steps[number]
        named = [(f"{case.name}-{number}-{index}", *call) for index, call in enumerate(calls)]
        return completion(reasoning=thinking, reasoning_field=field_name, calls=named)

    return MockServer(
        script, validators=[every_call_answered, arguments_are_json, _thinking_as_sent(case, field_name)]
    )


def _thinking_as_sent(case: Case, field_name: str) -> Callable[[Request], str | None]:
    def check(request: Request) -> str | None:
        answers = [message for message in request.messages if message["role"] == "assistant"]
        for (thinking, _), message in zip(case.steps, answers, strict=False):
            if message.get(field_name) != thinking:
                return f"{field_name} is {message.get(field_name)!r} and was {thinking!r}"
        return None

    return check
