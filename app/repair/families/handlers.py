"""Error handling: a handler missing, too broad, swallowing; cleanup that must run in any case."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from ..blocks import LEAVING, SIMPLE, first_real, is_docstring, lines_of, movable, own_nodes, reindented, wrap
from ..edits import insert_after, replace
from ..exits import exits
from ..facts import once, walk
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import FUNCTIONS, Edit, Function

_MOST_EXITS = 5
_BROAD = ("Exception", "BaseException")
_OF_CALLS = {
    "int": ("ValueError",),
    "float": ("ValueError",),
    "open": ("OSError", "FileNotFoundError"),
    "index": ("ValueError",),
    "remove": ("ValueError", "KeyError"),
    "next": ("StopIteration",),
    "pop": ("KeyError", "IndexError"),
    "loads": ("ValueError",),
    "decode": ("UnicodeDecodeError",),
    "getattr": ("AttributeError",),
    "strptime": ("ValueError",),
    "fromisoformat": ("ValueError",),
}


class Handlers(Family):
    name = "handler"
    prior = 0.65
    trust = 0.8
    fault = "handled an error in the wrong way"
    boosts = {  # noqa: RUF012
        "ValueError": 1.3,
        "KeyError": 1.2,
        "TypeError": 1.1,
        "IndexError": 1.1,
        "AttributeError": 1.1,
        "OSError": 1.4,
        "FileNotFoundError": 1.4,
        "StopIteration": 1.4,
        "UnicodeDecodeError": 1.4,
    }

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.ExceptHandler):
            yield from self._narrower(node, view)
            yield from self._swallowed(node, view)
            return
        if isinstance(node, ast.Return):
            yield from self._returned(node, view)
        if not isinstance(node, ast.stmt) or is_docstring(node):
            return
        function = view.source.function_of(node)
        if function is None or isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return
        if isinstance(node, ast.Raise):
            yield from self._raised(node, function, view)
        elif isinstance(node, ast.Try):
            yield from self._parts(node, view)
        else:
            yield from self._missing(node, function, view)
            yield from self._cleanup(node, view)
        if node is first_real(function):
            yield from self._lock(function, view)

    # ------------------------------------------------------------ handlers

    def _missing(self, node: ast.stmt, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """The exception that ended a failing test, caught where it may have arisen."""
        if not view.evidence.raised or not isinstance(node, SIMPLE) or isinstance(node, ast.Raise):
            return
        if not any(
            isinstance(each, (ast.Call, ast.Subscript, ast.BinOp, ast.Attribute)) for each in own_nodes(node)
        ):
            return
        raised = [each for each in view.evidence.raised if _known(each, view)][:3]
        kinds = list(raised)
        if len(raised) > 1:
            kinds.insert(0, f"({', '.join(raised)})")
        for position, kind in enumerate(kinds):
            leaves = [(leave, weight) for leave, weight in exits(node, function, view, "", _MOST_EXITS)]
            if isinstance(node, ast.Return):
                # The function's other parameters are likely defaults.
                leaves += [(f"return {name}", 0.8) for name in _defaults(function)]
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                target = node.targets[0].id
                leaves += [(f"{target} = {value}", 0.75) for value in ("None", "0", '""', "[]")]
            elif isinstance(node, (ast.Expr, ast.AugAssign, ast.Delete)):
                leaves.append(("pass", 0.85))
            own = [name for name in view.exception_names if name in view.module_names and name not in raised]
            leaves += [(f"raise {name}(str(error)) from error", 0.8) for name in own[:2]]
            for leave, weight in leaves:
                named = f"except {kind} as error:" if leave.startswith("raise") else f"except {kind}:"
                edits = wrap(view, [node], ["try:"], [named, f"\t{leave}"])
                if edits is not None:
                    harm = Harm.PRECISE if leave.startswith("raise") else Harm.LOOSENS
                    share = 1.0 - 0.12 * position
                    yield Proposal(edits, f"answers {kind} with `{leave}`", weight * share, harm)

    def _narrower(self, node: ast.ExceptHandler, view: ModuleView) -> Iterator[Proposal]:
        start, _ = view.source.span(node)
        parent = view.source.parents.get(node)
        likely: dict[str, float] = {}
        for each in ast.walk(ast.Module(parent.body, [])) if isinstance(parent, ast.Try) else ():
            if isinstance(each, ast.Call):
                name = getattr(each.func, "id", getattr(each.func, "attr", ""))
                likely |= dict.fromkeys(_OF_CALLS.get(name, ()), 1.0)
            elif isinstance(each, ast.Subscript):
                likely |= {"KeyError": 1.0, "IndexError": 0.85}
            elif isinstance(each, ast.BinOp) and isinstance(each.op, (ast.Div, ast.FloorDiv, ast.Mod)):
                likely["ZeroDivisionError"] = 1.0
        for name in view.exception_names:
            likely.setdefault(name, 0.7)
        for name in ("ValueError", "KeyError", "TypeError", "OSError", "IndexError", "AttributeError"):
            likely.setdefault(name, 0.6)
        if node.type is None:
            likely = {"Exception": 0.7, **likely}
            for name, weight in likely.items():
                yield Proposal((Edit(start + 6, start + 6, f" {name}"),), f"catches only {name}", weight)
        elif view.source.segment(node.type) in _BROAD:
            for name, weight in list(likely.items())[:8]:
                if name not in _BROAD:
                    yield Proposal(replace(view, node.type, name), f"catches only {name}", weight)
        elif isinstance(node.type, ast.Tuple) and len(node.type.elts) > 1:
            for left_out in node.type.elts:
                rest = [view.source.segment(each) for each in node.type.elts if each is not left_out]
                text = rest[0] if len(rest) == 1 else f"({', '.join(rest)})"
                yield Proposal(
                    replace(view, node.type, text), f"lets {view.source.segment(left_out)} through", 0.6
                )

    def _swallowed(self, node: ast.ExceptHandler, view: ModuleView) -> Iterator[Proposal]:
        """A handler that should pass the error on, or leave in another way."""
        last = node.body[-1]
        expected = 1.0 if view.evidence.expected else 0.6
        if isinstance(last, ast.Raise):
            if last.exc is not None and last.cause is None and node.name:
                _, end = view.source.span(last)
                yield Proposal((Edit(end, end, f" from {node.name}"),), "names the cause", 0.4)
            yield Proposal(replace(view, last, "pass"), "does not raise it again", 0.4, Harm.LOOSENS)
            return
        if not isinstance(last, LEAVING) and not isinstance(last, ast.Pass):
            edits = insert_after(view, last, ["raise"])
            if edits is not None:
                yield Proposal(edits, "raises the error again", expected)
        elif view.source.alone_on_lines(last):
            yield Proposal(replace(view, last, "raise"), "raises the error again", 0.9 * expected)
        for name in view.evidence.expected:
            if isinstance(last, (*LEAVING, ast.Pass)) and _known(name, view):
                text = f"raise {name}(str({node.name})) from {node.name}" if node.name else f"raise {name}"
                yield Proposal(replace(view, last, text), f"raises {name}", 0.95)
        function = view.source.function_of(node)
        if function is None:
            return
        for leave, weight in exits(last, function, view, "", _MOST_EXITS):
            if isinstance(last, (ast.Pass, *LEAVING)):
                if view.source.segment(last) != leave:
                    yield Proposal(replace(view, last, leave), f"answers with `{leave}`", 0.8 * weight)
            else:
                edits = insert_after(view, last, [leave])
                if edits is not None:
                    yield Proposal(edits, f"then leaves by `{leave}`", 0.7 * weight)

    # ------------------------------------------------------------ returned and raised

    def _returned(self, node: ast.Return, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node.value, (ast.Call, ast.Name)):
            made = node.value.func if isinstance(node.value, ast.Call) else node.value
            name = ast.unparse(made).rpartition(".")[2]
            if name in view.exception_names or name.endswith(("Error", "Exception")) or _known(name, view):
                start, _ = view.source.span(node)
                yield Proposal((Edit(start, start + 6, "raise"),), "raises rather than returns it", 1.0)
        if isinstance(node.value, ast.Constant):
            for name in view.evidence.expected:
                if _known(name, view):
                    text = f'raise {name}("not found")' if node.value.value is None else f"raise {name}"
                    yield Proposal(replace(view, node, text), f"raises {name} instead of returning", 0.7)

    def _raised(self, node: ast.Raise, function: Function, view: ModuleView) -> Iterator[Proposal]:
        for leave, weight in exits(node, function, view, "", _MOST_EXITS):
            yield Proposal(replace(view, node, leave), f"answers with `{leave}`", 0.75 * weight, Harm.LOOSENS)

    # ------------------------------------------------------------ parts of a try

    def _cleanup(self, node: ast.stmt, view: ModuleView) -> Iterator[Proposal]:
        """The statement that must run whatever the statements before it do."""
        block = view.source.block_of(node)
        if block is None or not isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete)):
            return
        position = block.index(node)
        last = reindented(view, [node], view.source.indent(node) + view.source.indent_unit)
        if last is None:
            return
        for count in (1, 2, 3):
            group = block[max(0, position - count) : position]
            if len(group) < count or is_docstring(group[0]):
                break
            if not any(isinstance(each, ast.Call) for each in ast.walk(group[0])):
                continue
            inner = reindented(view, group, view.source.indent(node) + view.source.indent_unit)
            if inner is None:
                break
            indent, newline = view.source.indent(node), view.source.newline
            text = f"{indent}try:{newline}{inner}{indent}finally:{newline}{last}"
            edit = Edit(lines_of(view, group)[0], lines_of(view, [node])[1], text)
            weight = (0.75 if view.evidence.raised else 0.5) - 0.1 * count
            yield Proposal((edit,), "does the last step whatever happens", weight)

    def _parts(self, node: ast.Try, view: ModuleView) -> Iterator[Proposal]:
        source = view.source
        block = source.block_of(node)
        indent, newline = source.indent(node), source.newline
        if not source.alone_on_lines(node):
            return
        after = block[block.index(node) + 1 :] if block else []
        if (
            after
            and not node.finalbody
            and isinstance(after[0], SIMPLE)
            and not isinstance(after[0], LEAVING)
        ):
            text = reindented(view, after[:1], indent + source.indent_unit)
            if text is not None:
                start, end = lines_of(view, after[:1])
                yield Proposal(
                    (Edit(start, end, f"{indent}finally:{newline}{text}"),), "does it in any case", 0.7
                )
        if len(node.body) > 1 and node.handlers:
            last = node.body[-1]
            text = reindented(view, [last], indent + source.indent_unit)
            if text is not None and not node.orelse:
                at = lines_of(view, [node.handlers[-1].body[-1]])[1]
                start, end = lines_of(view, [last])
                edits = (Edit(start, end, ""), Edit(at, at, f"{indent}else:{newline}{text}"))
                yield Proposal(edits, "does the last step outside the reach of the handler", 0.6)
            if text is not None and not node.finalbody:
                at = lines_of(view, [node])[1]
                start, end = lines_of(view, [last])
                edits = (Edit(start, end, ""), Edit(at, at, f"{indent}finally:{newline}{text}"))
                yield Proposal(edits, "does the last step in any case", 0.55)
        for one, two in zip(node.handlers, node.handlers[1:], strict=False):
            first, second = source.line_start(source.span(one)[0]), source.line_start(source.span(two)[0])
            end = lines_of(view, [two.body[-1]])[1]
            swapped = source.text[second:end] + source.text[first:second]
            if source.text[end - 1 : end] in ("\n", "\r"):
                yield Proposal((Edit(first, end, swapped),), "asks the handlers in the other order", 0.7)

    def _lock(self, function: Function, view: ModuleView) -> Iterator[Proposal]:
        """The context that every other method enters."""
        owner = view.source.parents.get(function)
        if not isinstance(owner, ast.ClassDef) or function.name == "__init__":
            return
        entered = once(view, _entered, owner)
        body = function.body[function.body.index(first_real(function)) :]
        for text in entered:
            if not isinstance(body[0], ast.With) and all(movable(view, each) for each in body):
                edits = wrap(view, body, [f"with {text}:"])
                if edits is not None:
                    yield Proposal(edits, f"enters {text} as its siblings do", 0.5)


def _entered(owner: ast.ClassDef, view: ModuleView) -> tuple[str, ...]:
    """Contexts of self that methods of a class enter."""
    found: dict[str, None] = {}
    for each in walk(view, owner):
        if isinstance(each, ast.With) and len(each.items) == 1 and each.items[0].optional_vars is None:
            text = ast.unparse(each.items[0].context_expr)
            if text.startswith("self."):
                found[text] = None
    return tuple(found)


def _known(name: str, view: ModuleView) -> bool:
    value = getattr(builtins, name, None)
    return name in view.module_names or (isinstance(value, type) and issubclass(value, BaseException))


def _defaults(function: Function) -> list[str]:
    """Parameters that look like fallbacks: named so, or the last one."""
    names = [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]
    likely = [name for name in names if "default" in name or "fallback" in name]
    return likely or [name for name in names[-1:] if name not in ("self", "cls") and len(names) > 1]
