"""Code of one function written in the names of another."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from .facts import once, walk
from .scope import ModuleView, parameters
from .similarity import likeness
from .source import LOOPS, Function

_LEAST_ALIKE = 0.5
_LOOP, _PARAMETER, _LOCAL = "loop", "parameter", "local"


class Adapter:
    """Maps the local names of pieces of a module to the names known at another place."""

    def __init__(self, view: ModuleView) -> None:
        self._view = view
        self._roles: dict[Function, dict[str, str]] = {}

    def roles(self, function: Function) -> dict[str, str]:
        """Local name -> how it is bound first: by a loop, as a parameter, or otherwise."""
        if function not in self._roles:
            found: dict[str, str] = {}
            for name in parameters(function):
                found[name] = _PARAMETER
            for node in walk(self._view, function):
                if isinstance(node, (*LOOPS, ast.comprehension)) and not isinstance(node, ast.While):
                    for each in ast.walk(node.target):
                        if isinstance(each, ast.Name):
                            found.setdefault(each.id, _LOOP)
            for name in self._view.local_names(function):
                found.setdefault(name, _LOCAL)
            self._roles[function] = found
        return self._roles[function]

    def mapping(
        self, names: frozenset[str], origin: Function, target: Function, known: frozenset[str]
    ) -> tuple[dict[str, str], float] | None:
        """Names of ``origin`` -> names of ``target``, with how well they fit (0 to 1].

        ``names`` are those that the piece uses; None when one of them has no like here.
        """
        there, here = self.roles(origin), self.roles(target)
        result: dict[str, str] = {}
        fit = 1.0
        for name in sorted(names):
            role = there.get(name)
            if role is None:
                continue  # of the module, or built in
            if name in known:
                continue
            best, weight = "", 0.0
            same_role = [each for each in here if here[each] == role and each in known]
            for each in same_role:
                if each in ("self", "cls") or each in result.values():
                    continue
                alike = likeness(name, each)
                if role == _LOOP or _position(origin, name) == _position(target, each):
                    alike = max(alike, _LEAST_ALIKE)
                if alike > weight:
                    best, weight = each, alike
            if weight < _LEAST_ALIKE:
                return None
            result[name] = best
            fit *= 0.55 + 0.35 * weight
        return result, fit

    def written(self, node: ast.AST, mapping: Mapping[str, str]) -> str | None:
        """The node's text with names replaced; None when its positions cannot be trusted."""
        source = self._view.source
        start, end = source.span(node)
        if not mapping:
            return source.text[start:end]
        pieces: list[str] = []
        position = start
        places = [each for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in mapping]
        if any(not source.editable(each) for each in places):
            return None
        for each in sorted(places, key=source.span):
            first, last = source.span(each)
            pieces += [source.text[position:first], mapping[each.id]]
            position = last
        return "".join([*pieces, source.text[position:end]])


def _position(function: Function, name: str) -> int:
    """Which parameter after ``self`` a name is; -1 for other names, which thereby are alike."""
    given = [each for each in parameters(function) if each not in ("self", "cls")]
    return given.index(name) if name in given else -1


def _adapter(tree: ast.Module, view: ModuleView) -> Adapter:
    return Adapter(view)


def adapter(view: ModuleView) -> Adapter:
    """The one adapter of a module's view."""
    return once(view, _adapter, view.source.tree)
