"""The bug files hold what the measurement rests on; a few are really run, all are read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from corpus import BUGS, LOCKED, BadBug, Bug, Scopes, load, load_all
from observe import agrees, observe, same

BUG = """kind: operators
=== shop.py
def total(prices):
    return sum(prices) + 1
=== bug: shop.py
<<<<<<<
    return sum(prices) + 1
=======
    return sum(prices) - 1
>>>>>>>
=== tests/test_shop.py
def test_total(): ...
=== tests/test_hidden.py
def test_more(): ...
=== inputs.py
def inputs(rng):
    return ([rng.randint(0, 9), 1],)
def call(argument):
    from shop import total
    return total(*argument)
"""


def parsed(tmp_path: Path, text: str) -> Bug:
    path = tmp_path / "example.bug"
    path.write_text(text)
    return load(path)


@pytest.mark.parametrize("folder", [BUGS, LOCKED], ids=["bugs", "locked"])
def test_every_bug_file_is_well_formed(folder: Path):
    for bug in load_all(folder):
        assert bug.kind and bug.inputs
        assert any(Scopes(text).names for text in bug.buggy().values()), bug.name
        hunks = sum(len(each) for each in bug.hunks.values())
        assert max(hunks, sum(map(len, bug.changed_lines().values()))) >= bug.edits, bug.name


def test_three_bugs_hold_when_they_are_run():
    names = [path.stem for path in sorted(BUGS.glob("*.bug"))]
    script = Path(__file__).with_name("validate.py")
    picked = [names[0], names[len(names) // 2], names[-1]]
    done = subprocess.run([sys.executable, script, *picked], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("3 bugs, 0 bad\n")


def test_a_bug_is_the_right_program_with_its_hunks(tmp_path: Path):
    bug = parsed(tmp_path, BUG)
    assert bug.repository()["shop.py"] == bug.right["shop.py"].replace("+ 1", "- 1")
    assert [*bug.hidden] == ["tests/test_hidden.py"] and [*bug.visible] == ["tests/test_shop.py"]
    assert bug.changed_lines() == {"shop.py": {2}}
    assert bug.changed_functions() == {"shop.py": {"total"}}


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("<<<<<<<\n    return sum(prices) + 1", "<<<<<<<\n    return sum(prices) + 2", "0 times"),
        ("    return sum(prices) - 1\n", "    return sum(prices) + 1\n", "changes nothing"),
        ("    return sum(prices) - 1\n", "    return sum(prices\n", "example: buggy shop.py:"),
        (">>>>>>>\n", "", "not closed"),
        ("def call", "def called", "inputs and call"),
        ("=== bug: shop.py", "=== bug: other.py", "does not have"),
        ("kind: operators\n", "", "kind"),
    ],
)
def test_a_malformed_bug_is_refused_by_name(tmp_path: Path, old: str, new: str, complaint: str):
    assert old in BUG
    with pytest.raises(BadBug, match=complaint) as refused:
        parsed(tmp_path, BUG.replace(old, new))
    assert "example" in str(refused.value)


def test_behaviour_is_compared_by_value_exception_and_argument(tmp_path: Path):
    program = "def total(prices):\n    prices.sort()\n    return 1 / (prices[0] - 1)\n"
    inputs = BUG.rpartition("=== inputs.py\n")[2]

    def seen(name: str, text: str):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shop.py").write_text(text)
        return observe(tmp_path / name, inputs, count=40, watch={"shop.py": [3]})

    first = seen("first", program)
    assert first["reached"] == 40
    assert {each[0] for each in first["outcomes"]} == {"returned", "raised"}
    assert agrees(first["outcomes"], seen("again", program)["outcomes"])
    for name, old, new in (
        ("value", "1 / (", "2 / ("),
        ("exception", "1 / (prices[0] - 1)", "1 / (prices[0] - 1) if prices[0] != 1 else [][0]"),
        ("argument", "    prices.sort()\n", "    prices = sorted(prices)\n"),
        ("hang", "    prices.sort()\n", "    while prices[0] == 1: pass\n"),
    ):
        assert not agrees(first["outcomes"], seen(name, program.replace(old, new))["outcomes"]), name


def test_rounding_is_no_difference_but_types_are():
    assert same(["returned", 0.1 + 0.2], ["returned", 0.3])
    assert not same(["returned", ["str", "1"]], ["returned", 1])
    assert not same(["returned", None], ["returned", 0])
