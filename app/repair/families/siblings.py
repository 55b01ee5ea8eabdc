"""Guards that other functions of the same file have at the same kind of place."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from ..edits import insert_before
from ..facts import once, walk
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import FUNCTIONS, Function

_MOST = 12
_MOST_LINES = 3


class SiblingGuards(Family):
    """Inserts an ``if`` statement that stands elsewhere in the file and whose names are all known here."""

    name = "sibling-guard"
    prior = 0.75
    harm = Harm.LOOSENS
    at_fault = True
    fault = "lacked a check that its siblings make"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.stmt) or isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return
        function = view.source.function_of(node)
        if function is None or view.source.is_docstring(getattr(node, "value", node)):
            return
        here = set(view.names_at(node))
        own = once(view, _own_guards, function)
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        rank = 0
        for text, dump, names in once(view, _guards, view.source.tree):
            tested = names & here
            if dump in own or not tested or not names <= here | set(view.module_names) | _BUILTINS:
                continue
            # A check of something this statement uses is likelier than one of a bystander.
            weight = (1.0 if tested & used else 0.6) * (1.0 - 0.05 * rank)
            edits = insert_before(view, node, text)
            if edits is not None:
                shown = " ".join(line.strip() for line in text)
                yield Proposal(edits, f"adds `{shown}` as other functions of this file do", weight)
                rank += 1
            if rank >= _MOST:
                return


_BUILTINS = frozenset(dir(builtins))


def _own_guards(function: Function, view: ModuleView) -> frozenset[str]:
    return frozenset(ast.dump(each) for each in walk(view, function) if isinstance(each, ast.If))


def _guards(tree: ast.Module, view: ModuleView) -> list[tuple[list[str], str, frozenset[str]]]:
    """Small ``if`` statements without ``else`` inside functions: lines, syntax tree, names; each once."""
    seen: set[str] = set()
    found: list[tuple[list[str], str, frozenset[str]]] = []
    for node in walk(view, tree):
        if not isinstance(node, ast.If) or node.orelse or len(node.body) != 1:
            continue
        only = node.body[0]
        if not isinstance(only, (ast.Return, ast.Raise, ast.Assign, ast.Continue)):
            continue
        if view.source.function_of(node) is None:
            continue
        test, body = view.source.segment(node.test), view.source.segment(only)
        if "\n" in test or len(body.splitlines()) >= _MOST_LINES or "\n" in body:
            continue
        dump = ast.dump(node)
        if dump in seen:
            continue
        seen.add(dump)
        names = frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
        found.append(([f"if {test}:", f"\t{body}"], dump, names))
    return found
