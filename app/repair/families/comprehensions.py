"""Comprehensions: a condition too many or too few, the wrong element, the wrong kind of collection."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Harm, Proposal
from ..knowledge import free_names
from ..scope import ModuleView
from ..source import Edit

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_MOST_BORROWED = 6
_BRACKETS = {"[": "]", "{": "}"}


class Comprehensions(Family):
    name = "comprehension"
    prior = 0.7
    fault = "collected the wrong values"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, _COMPREHENSIONS):
            return
        yield from self._conditions(node, view)
        yield from self._elements(node, view)
        yield from self._kinds(node, view)

    def _conditions(self, node: ast.expr, view: ModuleView) -> Iterator[Proposal]:
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        for generator in generators:
            last = view.source.span(generator.iter)[1]
            for each in generator.ifs:
                start = view.source.text.rfind("if", last, view.source.span(each)[0])
                end = _closed(view, each)
                if start >= 0:
                    before = view.source.text[:start].rstrip(" \t")
                    shown = view.source.segment(each)
                    edit = Edit(len(before), end, "")
                    yield Proposal((edit,), f"drops the condition `{shown}`", 0.5, Harm.REMOVES)
                    last = end
        generator = generators[-1]
        names = [each.id for each in ast.walk(generator.target) if isinstance(each, ast.Name)]
        end = max(_closed(view, each) for each in (generator.iter, *generator.ifs))
        word = " and " if generator.ifs else " if "
        for rank, condition in enumerate(_borrowed(node, generator, view)):
            edit = Edit(end, end, f"{word}{condition}")
            yield Proposal(
                (edit,), f"keeps only what satisfies `{condition}`", 0.7 - 0.08 * rank, Harm.LOOSENS
            )
        for attribute in self._flags(names, view):
            edit = Edit(end, end, f"{word}{attribute}")
            yield Proposal((edit,), f"keeps only what has {attribute}", 0.45, Harm.LOOSENS)
        element = _element(node)
        tests = [name for name in names if name != "_"]
        if element is not None and not isinstance(element, (ast.Name, ast.Constant, ast.Tuple)):
            text = view.source.segment(element)
            if "\n" not in text and len(text) < 40:
                tests.append(text)
        for name in tests[:3]:
            for condition, weight in ((name, 0.5), (f"{name} is not None", 0.4)):
                edit = Edit(end, end, f"{word}{condition}")
                yield Proposal((edit,), f"keeps only what satisfies `{condition}`", weight, Harm.LOOSENS)

    @staticmethod
    def _flags(names: list[str], view: ModuleView) -> list[str]:
        """Attributes that the file reads from variables of these names."""
        found = [
            f"{name}.{attribute}"
            for name in names
            for attribute in view.attributes_of(ast.Name(name))
            if attribute not in view.called_attributes
        ]
        return found[:_MOST_BORROWED]

    def _elements(self, node: ast.expr, view: ModuleView) -> Iterator[Proposal]:
        element = _element(node)
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        if element is None or not view.source.editable(element):
            return
        targets = [
            each.id for one in generators for each in ast.walk(one.target) if isinstance(each, ast.Name)
        ]
        if not isinstance(element, ast.Name):
            for name in targets:
                yield Proposal(replace(view, element, name), f"collects {name} itself", 0.4, Harm.REMOVES)
        call = view.source.parents.get(node)
        added_up = isinstance(call, ast.Call) and getattr(call.func, "id", "") == "sum"
        if added_up and not isinstance(element, ast.Constant):
            yield Proposal(replace(view, element, "1"), "counts instead of adding up", 0.5)
        if isinstance(node, ast.DictComp):
            key, value = view.source.segment(node.key), view.source.segment(node.value)
            edits = replace(view, node.key, value) + replace(view, node.value, key)
            yield Proposal(edits, "swaps keys and values", 0.6)

    def _kinds(self, node: ast.expr, view: ModuleView) -> Iterator[Proposal]:
        start, end = view.source.span(node)
        inside = view.source.text[start + 1 : end - 1]
        if isinstance(node, ast.ListComp):
            yield Proposal((Edit(start, end, f"{{{inside}}}"),), "collects each value once", 0.4)
        elif isinstance(node, ast.SetComp):
            yield Proposal((Edit(start, end, f"[{inside}]"),), "keeps repeated values", 0.6)


def _element(node: ast.expr) -> ast.expr | None:
    return node.value if isinstance(node, ast.DictComp) else getattr(node, "elt", None)


def _borrowed(node: ast.expr, generator: ast.comprehension, view: ModuleView) -> list[str]:
    """Conditions of the file on a variable of the same name that are not asked here."""
    own = {ast.dump(each) for each in generator.ifs}
    known = {*view.names_at(generator.target), *view.module_names}
    known.update(each.id for each in ast.walk(generator.target) if isinstance(each, ast.Name))
    targets = {each.id for each in ast.walk(generator.target) if isinstance(each, ast.Name)}
    found: dict[str, None] = {}
    for condition, text, dump in _conditions(view):
        names = set(free_names(condition))
        if dump not in own and names & targets and names <= known | _HARMLESS:
            found[text] = None
        if len(found) >= _MOST_BORROWED:
            break
    return list(found)


_HARMLESS = frozenset(
    ("len", "isinstance", "str", "int", "float", "list", "dict", "set", "any", "all", "abs")
)


def _conditions(view: ModuleView) -> list[tuple[ast.expr, str, str]]:
    """Short conditions of the file's comprehensions and ifs."""
    return view.remembered("comprehension conditions", _collected)


def _collected(view: ModuleView) -> list[tuple[ast.expr, str, str]]:
    found: list[tuple[ast.expr, str, str]] = []
    for node in ast.walk(view.source.tree):
        tests = node.ifs if isinstance(node, ast.comprehension) else []
        if isinstance(node, (ast.If, ast.IfExp)):
            tests = [node.test]
        for each in tests:
            text = view.source.segment(each)
            if "\n" not in text and len(text) < 60 and not isinstance(each, (ast.NamedExpr, ast.BoolOp)):
                found.append((each, text, ast.dump(each)))
    return found


def _closed(view: ModuleView, node: ast.expr) -> int:
    """The end of a node with the parentheses around it."""
    start, end = view.source.span(node)
    text = view.source.text
    while True:
        before = text[:start].rstrip()
        after = end + len(text[end:]) - len(text[end:].lstrip())
        if not (before.endswith("(") and text[after : after + 1] == ")"):
            return end
        opened = text[len(before) - 2 : len(before) - 1]
        if opened.isalnum() or opened in "_)]":
            return end  # a call's own
        start, end = len(before) - 1, after + 1
