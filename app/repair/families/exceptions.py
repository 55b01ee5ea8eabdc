"""Exceptions: the wrong type raised or caught, too narrow handlers, a forgotten ``raise``."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from ..edits import replace
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import Edit

_NEAR = {
    "ValueError": ("TypeError", "KeyError", "IndexError"),
    "TypeError": ("ValueError", "AttributeError"),
    "KeyError": ("IndexError", "LookupError", "ValueError", "AttributeError"),
    "IndexError": ("KeyError", "ValueError", "LookupError"),
    "AttributeError": ("TypeError", "KeyError"),
    "RuntimeError": ("ValueError", "NotImplementedError"),
    "NotImplementedError": ("RuntimeError", "TypeError"),
    "OSError": ("FileNotFoundError", "ValueError"),
    "FileNotFoundError": ("OSError",),
    "ZeroDivisionError": ("ValueError", "ArithmeticError"),
    "Exception": ("ValueError", "RuntimeError"),
    "StopIteration": ("IndexError", "ValueError"),
}
_ORDINARY = 0.79


class Exceptions(Family):
    name = "exception"
    prior = 0.95
    trust = 0.85
    fault = "raised or caught the wrong exception"
    boosts = dict.fromkeys(_NEAR, 1.5)

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Raise) and node.exc is not None:
            named = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            yield from self._types(named, view, "raises")
        elif isinstance(node, ast.ExceptHandler) and node.type is not None:
            yield from self._types(node.type, view, "catches")
            yield from self._wider(node, view)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            made = ast.unparse(node.value.func).rpartition(".")[2]
            start, _ = view.source.span(node)
            if made in view.exception_names:
                edits = (Edit(start, start, "raise "),)
                yield Proposal(edits, "raises the exception it only made", _ORDINARY)

    def _types(self, named: ast.expr, view: ModuleView, verb: str) -> Iterator[Proposal]:
        if not isinstance(named, (ast.Name, ast.Attribute)):
            return
        old = view.source.segment(named)
        likely: dict[str, float] = dict.fromkeys(
            view.evidence.expected if verb == "raises" else view.evidence.raised, 1.0
        )
        for name in _NEAR.get(old, ()):
            likely.setdefault(name, 0.7)
        for name in view.exception_names:
            likely.setdefault(name, 0.4)
        for name, weight in likely.items():
            if name != old and (hasattr(builtins, name) or name in view.module_names):
                text = f"{verb} {name} instead of {old}"
                yield Proposal(replace(view, named, name), text, _ORDINARY * weight)

    def _wider(self, node: ast.ExceptHandler, view: ModuleView) -> Iterator[Proposal]:
        if node.type is None:
            return
        old = view.source.segment(node.type)
        inner = old[1:-1].rstrip(", ") if isinstance(node.type, ast.Tuple) and old.startswith("(") else old
        parent = view.source.parents.get(node)
        inside = range(parent.body[0].lineno, node.lineno) if isinstance(parent, ast.Try) else range(0)
        # What arose under this very handler asks for it more than for a guard before it.
        missed = any(path == view.source.path and line in inside for path, line in view.evidence.raised_at)
        extra = dict.fromkeys(_NEAR.get(old, ())[:2], 0.7) | dict.fromkeys(view.evidence.raised, 1.0)
        for name, weight in extra.items():
            if name not in old and (hasattr(builtins, name) or name in view.module_names):
                edits = replace(view, node.type, f"({inner}, {name})")
                share = 1.0 if missed and name in view.evidence.raised else _ORDINARY
                yield Proposal(edits, f"also catches {name}", share * weight, Harm.LOOSENS)
