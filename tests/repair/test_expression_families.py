"""Families that change expressions make the edit they exist for; what the project knows is used again."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest
from expression_rows import EXPRESSION_ROWS
from whimbrel.app.repair.families import all_families
from whimbrel.app.repair.gathering import gather
from whimbrel.app.repair.knowledge import Knowledge, mentions_of
from whimbrel.app.repair.localise import Localisation
from whimbrel.app.repair.scope import ModuleView
from whimbrel.app.repair.source import ModuleSource, apply_edits
from whimbrel.sandbox.base.git import Git
from whimbrel.sandbox.workspace import Workspace


def made(family: str, text: str, knowledge: Knowledge | None = None) -> set[str]:
    """All texts that a family makes of a module."""
    source = ModuleSource("m.py", text.encode())
    view = ModuleView(source, knowledge=knowledge)
    (chosen,) = (each for each in all_families() if each.name == family)
    return {
        apply_edits(source.text, proposal.edits)
        for node in ast.walk(source.tree)
        for proposal in chosen.propose(node, view)
    }


@pytest.mark.parametrize(("family", "before", "after"), EXPRESSION_ROWS)
def test_the_family_makes_the_edit(family: str, before: str, after: str):
    header = "import re\ndef f(a, b, xs, d):\n    "
    assert f"{header}{after}\n" in made(family, f"{header}{before}\n")


def test_only_python_comes_out():
    """Also of f-strings, patterns and nested conditions."""
    text = dedent("""
        import re
        from dataclasses import dataclass, field


        @dataclass
        class Row:
            name: str = ""
            cells: list = None

            def shown(self, width=10, *marks):
                head = f"{self.name:>{width}} {len(self.cells)!r:>3} {{}}" if self.cells else "-" * width
                return [head, *(re.sub(r"^(a|b)+[^x-z]{2,3}$", "", each) for each in marks if each and width > 2)]
    """)
    source = ModuleSource("m.py", text.encode())
    view = ModuleView(source)
    for family in all_families():
        for node in ast.walk(source.tree):
            if not hasattr(node, "lineno") or source.editable(node):
                for proposal in family.propose(node, view):
                    assert 0 < proposal.weight <= 1.3, family.name
                    new = apply_edits(source.text, proposal.edits)
                    try:
                        ast.parse(new)
                    except SyntaxError as error:
                        # Text inside an f-string may not hold its own quotes before Python 3.12.
                        assert "f-string" in str(error) or source.inside_fstring(node), proposal.description


def test_a_field_gets_a_collection_of_its_own_and_the_import_that_needs():
    text = "from dataclasses import dataclass\n@dataclass\nclass C:\n    tags: list = None\n"
    assert made("field-default", text) == {
        "from dataclasses import dataclass, field\n@dataclass\nclass C:\n"
        "    tags: list = field(default_factory=list)\n"
    }


def test_an_unread_parameter_is_the_likeliest_variable():
    text = "def f(width, size, height):\n    return width * width + size\n"
    source = ModuleSource("m.py", text.encode())
    view = ModuleView(source)
    (family,) = (each for each in all_families() if each.name == "name")
    best: dict[str, float] = {}
    for node in ast.walk(source.tree):
        for proposal in family.propose(node, view):
            new = proposal.edits[0].text
            best[new] = max(best.get(new, 0.0), proposal.weight)
    assert best["height"] > best["size"]


def test_expressions_of_another_file_are_used_in_the_names_known_here():
    other = "def price(order):\n    return round(order.net * (1 + order.vat), 2)\n"
    knowledge = Knowledge()
    knowledge.learn(ModuleSource("shop/other.py", other.encode()))
    text = "def total(orders):\n    return sum(round(order.net * order.vat, 2) for order in orders)\n"
    assert text.replace("order.net * order.vat", "order.net * (1 + order.vat)") in made(
        "borrowed", text, knowledge
    )


def test_lines_that_past_commits_took_out_are_known_too():
    knowledge = Knowledge()
    knowledge.learn_history(["    if limit is not None and count >= limit:", "} else {", "return x +"])
    found = knowledge.alike("test", mentions_of(ast.parse("count > limit")))
    assert found[0][1].text in ("limit is not None and count >= limit", "count >= limit")
    text = "def full(count, limit):\n    if count > limit:\n        return True\n    return False\n"
    assert text.replace("count > limit", "count >= limit") in made("borrowed", text, knowledge)


def test_what_has_no_like_here_is_not_borrowed():
    knowledge = Knowledge()
    knowledge.learn(ModuleSource("a.py", b"def g(quux):\n    return quux.net * quux.vat * 3\n"))
    assert made("borrowed", "def f(a):\n    return a.net * a.vat\n", knowledge) == set()


async def test_files_beside_and_past_commits_are_gathered(tmp_path: Path):
    repository = tmp_path / "project"
    (repository / "shop").mkdir(parents=True)
    git = Git(
        None,
        repository,
        extra_env={"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b.c"}
        | {"GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b.c"},
    )
    git.run_sync("init", "-q")
    file = repository / "shop" / "stock.py"
    for text in (
        "def free(item):\n    return item.count - item.held\n",
        "def free(item):\n    return item.count\n",
    ):
        file.write_text(text)
        git.run_sync("add", "-A")
        git.run_sync("commit", "-qm", "step")
    (repository / "shop" / "price.py").write_text(
        "def net(item):\n    return round(item.price * item.count, 2)\n"
    )
    workspace = await Workspace.create(repository, tmp_path / "run")
    source = ModuleSource("shop/stock.py", file.read_bytes())
    knowledge = gather(workspace, Localisation((), {"shop/stock.py": {}}, {"shop/stock.py": source}))
    removed = knowledge.alike("arithmetic", frozenset({"item", "held"}))
    beside = knowledge.alike("call", frozenset({"round", "price"}))
    assert removed[0][1].text == "item.count - item.held" and not removed[0][1].path
    assert beside[0][1].path == "shop/price.py"
    await workspace.destroy()


def test_the_operator_of_a_tally_is_hardly_ever_the_fault():
    (arithmetic,) = (each for each in all_families() if each.name == "arithmetic")

    def weights(expression: str) -> list[float]:
        source = ModuleSource("m.py", f"def f(c, w):\n    c[w] = {expression}\n".encode())
        nodes = [node for node in ast.walk(source.tree) if isinstance(node, ast.BinOp)]
        return [each.weight for node in nodes for each in arithmetic.propose(node, ModuleView(source))]

    tally, plain = weights("c.get(w, 0) + 1"), weights("c.get(w, 2) + 1")
    assert len(tally) == len(plain) == 2
    assert all(less < 0.5 * more for less, more in zip(tally, plain, strict=True))
    assert weights("c.get(w, 0) - 1")[0] == weights("c.get(w, 2) - 1")[0]
