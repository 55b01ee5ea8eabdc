"""Calls seen in the file, with values of the site's scope as arguments.

What they give is not known here, so nothing is pruned: only a few are proposed, and each
has to be run.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Sequence

from ..scope import ModuleView
from ..source import FUNCTIONS
from .distance import Distance
from .goals import Found
from .samples import Row
from .sites import Site
from .terms import ATOM

_MOST = 5
_MOST_NAMES = 3
_UNSURE = 1.0


def calls(site: Site, rows: Sequence[Row], view: ModuleView) -> list[Found]:
    """The old expression, or a name of its scope, given to functions of the file; nearest first."""
    distance = Distance(site, view)
    names = [name for name in (rows[0].snapshot.names if rows else ()) if name not in ("self", "cls")]
    names.sort(key=lambda name: (name not in site.identifiers, name not in site.neighbours, name))
    single = [name for name in names[:_MOST_NAMES] if name != site.text]
    found: list[Found] = []
    for callee, arity in _callees(site, view):
        options = [[site.text], *([name] for name in single)]
        if arity == 2:
            options = [[site.text, name] for name in single] + [[name, site.text] for name in single]
        for arguments in options:
            text = f"{callee}({', '.join(arguments)})"
            found.append(Found(text, ATOM, distance.of(text) + _UNSURE))
    found.sort(key=lambda each: (each.cost, len(each.text), each.text))
    return found[:_MOST]


def _callees(site: Site, view: ModuleView) -> list[tuple[str, int]]:
    """Functions and own methods called with one or two plain arguments, the commonest first."""
    seen: Counter[tuple[str, int]] = Counter()
    owner = view.source.class_of(site.node)
    around = view.source.function_of(site.node)
    for node in ast.walk(view.source.tree):
        if not isinstance(node, ast.Call) or node.keywords or len(node.args) not in (1, 2):
            continue
        if any(isinstance(each, ast.Starred) for each in node.args):
            continue
        match node.func:
            case ast.Name(id=name) if not hasattr(builtins, name):
                seen[name, len(node.args)] += 1
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if view.source.class_of(node) is owner:
                seen[f"self.{name}", len(node.args)] += 1
            case _:
                continue
    for node in view.source.tree.body:
        if not isinstance(node, FUNCTIONS) or node.args.kwonlyargs or node.decorator_list:
            continue
        needed = len(node.args.args) - len(node.args.defaults)
        if needed in (1, 2):
            seen[node.name, needed] += 0  # known, though never called
    own = "" if around is None else around.name
    inside = [key for key in seen if key[0].rpartition(".")[2] != own and f"{key[0]}(" not in site.text]
    return sorted(inside, key=lambda key: (-seen[key], key))
