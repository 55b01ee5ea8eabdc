"""Names bound in the wrong scope: ``self.`` left out, ``nonlocal``, ``global``, a base class not set up."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import first_real
from ..edits import insert_before
from ..facts import loaded_names, walk
from ..family import Family, Proposal
from ..scope import ModuleView, parameters
from ..source import FUNCTIONS, Edit, Function


class Scoping(Family):
    name = "scoping"
    prior = 0.85
    fault = "set a name where nobody sees it"
    boosts = {"UnboundLocalError": 1.5, "AttributeError": 1.25, "NameError": 1.4}  # noqa: RUF012

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.stmt):
            return
        function = view.source.function_of(node)
        if function is None:
            return
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            yield from self._attribute(node, function, view)
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.For, ast.Delete)):
            yield from self._outer(node, function, view)
        if node is first_real(function) and function.name == "__init__":
            yield from self._base(node, function, view)

    def _attribute(
        self, node: ast.Assign | ast.AugAssign | ast.AnnAssign, function: Function, view: ModuleView
    ) -> Iterator[Proposal]:
        """A local that was meant to be an attribute."""
        owner = view.source.class_of(function)
        if owner is None or parameters(function)[:1] not in (("self",), ("cls",)):
            return
        receiver = parameters(function)[0]
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        members = view.members(owner)
        loaded = loaded_names(function, view)
        for target in targets:
            for each in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                if not isinstance(each, ast.Name):
                    continue
                start, _ = view.source.span(each)
                known = each.id in members
                unused = each.id not in loaded
                if not known and not unused:
                    continue
                weight = 1.0 if known and unused else 0.6 if known else 0.35
                yield Proposal(
                    (Edit(start, start, f"{receiver}."),),
                    f"sets {receiver}.{each.id} rather than a local",
                    weight,
                )

    def _outer(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """A name of an enclosing function or of the module that is rebound here."""
        given = parameters(function)
        names = sorted(
            {
                each.id
                for each in ast.walk(node)
                if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load) and each.id not in given
            }
        )
        declared = {
            name
            for each in walk(view, function)
            if isinstance(each, (ast.Global, ast.Nonlocal))
            for name in each.names
        }
        loaded = loaded_names(function, view)
        for name in names:
            if name in declared:
                continue
            weight = 1.0 if isinstance(node, ast.AugAssign) else 0.85 if name not in loaded else 0.6
            keyword = ""
            for outer in view.source.ancestors(function):
                if isinstance(outer, FUNCTIONS) and name in view.local_names(outer):
                    keyword = "nonlocal"
                    break
            if not keyword and name in view.module_names and name not in view.called_names:
                keyword = "global"
            if keyword:
                edits = insert_before(view, first_real(function), [f"{keyword} {name}"])
                if edits is not None:
                    yield Proposal(edits, f"rebinds the outer {name}", weight)

    def _base(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """``super().__init__`` with what the base class asks for."""
        owner = view.source.parents.get(function)
        if not isinstance(owner, ast.ClassDef) or not owner.bases:
            return
        if any(isinstance(each, ast.Attribute) and each.attr == "__init__" for each in walk(view, function)):
            return
        given = [name for name in parameters(function) if name not in ("self",)]
        wanted = _base_parameters(owner, view)
        options: dict[str, float] = {}
        if wanted is not None:
            same = [name for name in wanted if name in given]
            options[", ".join(same)] = 1.0
            if len(given) >= len(wanted):
                options.setdefault(", ".join(given[: len(wanted)]), 0.8)
        options.setdefault("", 0.85)
        options.setdefault(", ".join(given), 0.7)
        if given:
            options.setdefault(given[0], 0.65)
        for arguments, weight in options.items():
            edits = insert_before(view, node, [f"super().__init__({arguments})"])
            if edits is not None:
                yield Proposal(edits, f"adds `super().__init__({arguments})`", weight)


def _base_parameters(owner: ast.ClassDef, view: ModuleView) -> tuple[str, ...] | None:
    """Parameters of the first base class's initialiser, when this file defines it."""
    for base in owner.bases:
        for node in view.source.tree.body:
            if isinstance(node, ast.ClassDef) and isinstance(base, ast.Name) and node.name == base.id:
                for method in view.methods(node):
                    if method.name == "__init__":
                        return tuple(name for name in parameters(method) if name != "self")
    return None
