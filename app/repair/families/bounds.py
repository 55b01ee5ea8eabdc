"""Off by one at indexes, slices and ranges, and where one is added or subtracted."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..edits import enclosed, replace
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import FUNCTIONS, Edit


class Bounds(Family):
    name = "bound"
    prior = 0.95
    fault = "was off by one at a bound"

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if isinstance(node, ast.Subscript):
            yield from self._subscript(node, view)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            yield from self._range(node, view)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            if _is_one(node.right):
                yield Proposal(
                    replace(view, node, view.source.segment(node.left)), "drops the offset of one", 0.9
                )
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
            yield from _shifted(node, view, 0.5)
            if isinstance(view.source.parents.get(node), ast.BinOp):
                for size in _sizes(node, view):
                    text = f"({view.source.segment(node)} - {size})"
                    yield Proposal(replace(view, node, text), f"leaves {size} out", 0.4)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.FloorDiv)):
            formats = isinstance(node.left, (ast.Constant, ast.JoinedStr))
            if not formats:
                yield from _shifted(node.left, view, 0.5)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            if isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                yield from _shifted(node.comparators[0], view, 0.4)
        elif isinstance(node, (ast.Return, ast.Assign)):
            if isinstance(node.value, (ast.Name, ast.Attribute, ast.BinOp, ast.Call)):
                yield from _shifted(node.value, view, 0.35)
        elif isinstance(node, ast.Call):
            for argument in node.args:
                if isinstance(argument, ast.Name):
                    yield from _shifted(argument, view, 0.25)
                elif isinstance(argument, (ast.BinOp, ast.Subscript)):
                    yield from _shifted(argument, view, 0.4 if isinstance(argument, ast.BinOp) else 0.2)
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            for argument in node.args:
                if isinstance(argument, (ast.Name, ast.Attribute)) and name not in (
                    "len",
                    "int",
                    "isinstance",
                ):
                    yield from self._sliced(
                        argument, 0.5 if name in ("zip", "sum", "min", "max") else 0.2, view
                    )
        elif isinstance(node, (ast.For, ast.comprehension)):
            if isinstance(node.iter, (ast.Name, ast.Attribute)):
                yield from self._sliced(node.iter, 0.5, view)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from self._after_prefix(node, view)
        elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
            for item in node.elts:
                if isinstance(item, (ast.Name, ast.Attribute)):
                    yield from _shifted(item, view, 0.35)

    def _subscript(self, node: ast.Subscript, view: ModuleView) -> Iterator[Proposal]:
        index = node.slice
        if isinstance(index, ast.Slice):
            yield from self._slice(index, view)
            yield from self._whole(node, view)
        elif not isinstance(index, (ast.Tuple, ast.Constant)) and isinstance(node.ctx, (ast.Load, ast.Store)):
            yield from _shifted(index, view, 0.8)
            yield from self._together(node, view)
        elif isinstance(index, ast.Constant) and index.value == 0:
            yield Proposal(replace(view, index, "-1"), "takes the last item instead of the first", 0.8)
        if (
            isinstance(index, ast.UnaryOp)
            and isinstance(index.operand, ast.Constant)
            and index.operand.value == 1
        ):
            yield Proposal(replace(view, index, "0"), "takes the first item instead of the last", 0.8)

        if isinstance(node.ctx, ast.Load) and not isinstance(index, (ast.Slice, ast.Tuple)):
            text = view.source.segment(index)
            if not (isinstance(index, ast.Constant) and isinstance(index.value, str)):
                yield Proposal(replace(view, index, f":{text}"), f"takes all before {text}", 0.35)
                yield Proposal(replace(view, index, f"{text}:"), f"takes all from {text} on", 0.35)
        if isinstance(node.value, ast.Subscript) and not isinstance(index, (ast.Slice, ast.Constant)):
            inner = node.value.slice
            one, two = view.source.segment(inner), view.source.segment(index)
            if not isinstance(inner, (ast.Slice, ast.Constant)) and one != two:
                edits = replace(view, inner, two) + replace(view, index, one)
                yield Proposal(edits, f"swaps the indexes {one} and {two}", 0.8)

    def _together(self, node: ast.Subscript, view: ModuleView) -> Iterator[Proposal]:
        """All indexes into one sequence in a statement moved by one."""
        statement = view.source.statement_of(node)
        if statement is None or hasattr(statement, "body"):
            return
        base = ast.dump(node.value)
        alike = [
            each
            for each in ast.walk(statement)
            if isinstance(each, ast.Subscript)
            and ast.dump(each.value) == base
            and not isinstance(each.slice, (ast.Slice, ast.Tuple, ast.Constant, ast.UnaryOp))
            and view.source.editable(each.slice)
        ]
        # Of an index within another, as in `up[up[x]]`, the inner one is moved.
        alike = [each for each in alike if not any(inner in alike for inner in ast.walk(each.slice))]
        if len(alike) < 2 or alike[0] is not node:
            return
        for step in (-1, 1):
            edits: tuple[Edit, ...] = ()
            for each in alike:
                edits += replace(view, each.slice, _moved(each.slice, step, view))
            yield Proposal(edits, f"moves all indexes by {step}", 0.6)

    def _after_prefix(self, node: ast.Name, view: ModuleView) -> Iterator[Proposal]:
        """What follows a prefix that was asked for."""
        prefixes = view.remembered("prefixes", _prefixes).get(node.id, ())
        parent = view.source.parents.get(node)
        if isinstance(parent, ast.Attribute) and parent.attr in ("startswith", "endswith"):
            return
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return
        _, end = view.source.span(node)
        for prefix in prefixes:
            yield Proposal((Edit(end, end, f"[len({prefix}):]"),), f"takes what follows {prefix}", 0.4)

    def _whole(self, node: ast.Subscript, view: ModuleView) -> Iterator[Proposal]:
        """The slice dropped, turned, or with its bounds' signs changed."""
        index = node.slice
        if not isinstance(index, ast.Slice):
            return
        if isinstance(node.ctx, ast.Load):
            text = view.source.segment(node.value)
            yield Proposal(replace(view, node, text), "takes the whole instead of a part", 0.5, Harm.REMOVES)
        lower, upper = index.lower, index.upper
        if index.step is None and (lower is None) != (upper is None):
            bound = lower if lower is not None else upper
            assert bound is not None
            text = view.source.segment(bound)
            turned = f":{text}" if lower is not None else f"{text}:"
            yield Proposal(replace(view, index, turned), "takes the other part", 0.8)
        for bound in (lower, upper):
            if bound is not None:
                start, _ = view.source.span(bound)
                if isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub):
                    inner = view.source.segment(bound.operand)
                    yield Proposal(replace(view, bound, inner), f"counts {inner} from the start", 0.6)
                elif not isinstance(bound, ast.BinOp):
                    yield Proposal((Edit(start, start, "-"),), "counts from the end", 0.55)
        yield from self._all_signs(node, lower or upper, view)
        if lower is not None and upper is not None:
            one, two = view.source.segment(lower), view.source.segment(upper)
            yield Proposal(replace(view, upper, f"{one} + {two}"), f"ends {two} after its start", 0.7)
            edits = replace(view, lower, two) + replace(view, upper, one)
            yield Proposal(edits, "swaps the bounds", 0.5)

    def _all_signs(self, node: ast.Subscript, bound: ast.expr | None, view: ModuleView) -> Iterator[Proposal]:
        """``xs[k:] + xs[:k]`` and ``xs[-k:] + xs[:-k]``."""
        statement = view.source.statement_of(node)
        if not isinstance(bound, ast.Name) or statement is None or hasattr(statement, "body"):
            return
        alike = [
            each
            for part in ast.walk(statement)
            if isinstance(part, ast.Slice)
            for each in (part.lower, part.upper)
            if isinstance(each, ast.Name) and each.id == bound.id
        ]
        if len(alike) > 1 and alike[0] is bound:
            edits = tuple(Edit(view.source.span(each)[0], view.source.span(each)[0], "-") for each in alike)
            yield Proposal(edits, "counts from the other end", 0.5)

    def _slice(self, node: ast.Slice, view: ModuleView) -> Iterator[Proposal]:
        for name, bound in (("lower", node.lower), ("upper", node.upper)):
            if bound is None:
                continue
            yield from _shifted(bound, view, 0.9)
            yield Proposal(replace(view, bound, ""), f"drops the {name} bound", 0.5)
            if isinstance(bound, (ast.Name, ast.Attribute)):
                for size in _sizes(bound, view):
                    text = view.source.segment(bound)
                    yield Proposal(replace(view, bound, f"{text} - {size}"), f"leaves {size} more out", 0.5)
        start, end = view.source.span(node)
        if node.upper is None and node.step is None:
            yield Proposal((Edit(end, end, "-1"),), "leaves the last item out", 0.5)
        if node.lower is None:
            yield Proposal((Edit(start, start, "1"),), "leaves the first item out", 0.5)
        if node.step is not None:
            yield Proposal(
                replace(view, node.step, f"-{enclosed(view, node.step)}"), "goes the other way", 0.4
            )
        elif node.lower is None and node.upper is None:
            yield Proposal((Edit(end, end, ":-1"),), "goes the other way", 0.4)

    def _sliced(self, value: ast.expr, weight: float, view: ModuleView) -> Iterator[Proposal]:
        """A part of a sequence where the whole is used."""
        _, end = view.source.span(value)
        for text, share in (("[1:]", 1.0), ("[:-1]", 0.9), ("[::-1]", 0.8)):
            yield Proposal((Edit(end, end, text),), f"takes {text} of it", weight * share)

    def _range(self, node: ast.Call, view: ModuleView) -> Iterator[Proposal]:
        if not node.args or node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            return
        stop = node.args[0] if len(node.args) == 1 else node.args[1]
        yield from _shifted(stop, view, 1.0)
        if len(node.args) == 1:
            text = view.source.segment(stop)
            yield Proposal(replace(view, stop, f"1, {text}"), "starts the range at 1", 0.7)
            yield Proposal(
                replace(view, stop, f"1, {enclosed(view, stop)} + 1"), "ranges from 1 to the end", 0.6
            )
        else:
            first = node.args[0]
            yield from _shifted(first, view, 0.8)
            if not (isinstance(first, ast.Constant) and first.value == 0):
                yield Proposal(replace(view, first, "0"), "starts the range at 0", 0.6)
        last = view.source.span(node.args[-1])[1]
        if len(node.args) == 1:
            for name in self._outer_counters(node, view):
                said = f"starts the range after {name}"
                yield Proposal(replace(view, stop, f"{name} + 1, {view.source.segment(stop)}"), said, 0.8)
                said = f"starts the range at {name}"
                yield Proposal(replace(view, stop, f"{name}, {view.source.segment(stop)}"), said, 0.6)
            text = enclosed(view, stop)
            edits = replace(view, stop, f"{text} - 1, -1, -1")
            yield Proposal(edits, "goes from the end to the start", 0.5)
            for name in view.names_at(node)[:4]:
                if name not in ("self", "cls") and name != text:
                    edits = replace(view, stop, f"{name}, {view.source.segment(stop)}")
                    yield Proposal(edits, f"starts the range at {name}", 0.35)
        elif len(node.args) == 2:
            unused = view.unused_names(node)
            for name in view.names_at(node):
                if name not in ("self", "cls"):
                    near = 0.9 if name in unused or name in ("step", "size", "width", "stride") else 0.35
                    yield Proposal((Edit(last, last, f", {name}"),), f"goes in steps of {name}", near)
            for step in ("-1", "2"):
                yield Proposal((Edit(last, last, f", {step}"),), f"goes in steps of {step}", 0.4)
        else:
            step = node.args[2]
            text = view.source.segment(step)
            turned = text[1:] if text.startswith("-") else f"-{enclosed(view, step)}"
            yield Proposal(replace(view, step, turned), "goes the other way", 0.5)
            start = view.source.span(node.args[1])[1]
            yield Proposal((Edit(start, view.source.span(step)[1], ""),), "goes in steps of one", 0.3)

    @staticmethod
    def _outer_counters(node: ast.Call, view: ModuleView) -> list[str]:
        """Variables of the loops around that count over a range themselves."""
        found: list[str] = []
        for ancestor in view.source.ancestors(node):
            if isinstance(ancestor, FUNCTIONS):
                break
            loops: list[ast.For | ast.AsyncFor | ast.comprehension] = []
            if isinstance(ancestor, (ast.For, ast.AsyncFor)) and ancestor.iter is not node:
                loops = [ancestor]
            elif isinstance(ancestor, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
                loops = [each for each in ancestor.generators if each.iter is not node]
            for each in loops:
                if isinstance(each.iter, ast.Call) and ast.unparse(each.iter.func) in ("range", "enumerate"):
                    found += [one.id for one in ast.walk(each.target) if isinstance(one, ast.Name)]
        return found[:3]


def _shifted(node: ast.expr, view: ModuleView, weight: float) -> Iterator[Proposal]:
    """The expression plus and minus one; numerals are left to the family of constants."""
    if isinstance(node, (ast.JoinedStr, ast.Constant)) or not view.source.editable(node):
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return
    if isinstance(node, ast.BinOp) and _is_one(node.right):
        return
    text = view.source.segment(node) if isinstance(node, ast.BinOp) and _sum(node) else enclosed(view, node)
    parent = view.source.parents.get(node)
    tight = isinstance(parent, ast.BinOp) and (
        not isinstance(parent.op, (ast.Add, ast.Sub))
        or (isinstance(parent.op, ast.Sub) and parent.right is node)
    )
    front, back = ("(", ")") if tight else ("", "")
    yield Proposal(replace(view, node, f"{front}{text} + 1{back}"), "adds one", weight)
    yield Proposal(replace(view, node, f"{front}{text} - 1{back}"), "subtracts one", weight)


def _sizes(node: ast.expr, view: ModuleView) -> list[int]:
    """Small numbers, and lengths of short texts, that the function mentions."""
    function = view.source.function_of(node)
    if function is None:
        return []
    numbers = [each for each in view.constants(function, int) if isinstance(each, int) and 1 < each < 20]
    lengths = [
        len(each) for each in view.constants(function, str) if isinstance(each, str) and 1 < len(each) < 6
    ]
    return list(dict.fromkeys([*lengths, *numbers]))[:4]


def _prefixes(view: ModuleView) -> dict[str, tuple[str, ...]]:
    """Variable -> names that it is asked to start with."""
    found: dict[str, dict[str, None]] = {}
    for node in ast.walk(view.source.tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        base, prefix = node.func.value, node.args[0]
        if node.func.attr == "startswith" and isinstance(base, ast.Name) and isinstance(prefix, ast.Name):
            found.setdefault(base.id, {})[prefix.id] = None
    return {name: tuple(prefixes) for name, prefixes in found.items()}


def _moved(index: ast.expr, step: int, view: ModuleView) -> str:
    """An index one further or one back, without leaving ``+ 1 - 1`` behind."""
    if isinstance(index, ast.BinOp) and _is_one(index.right) and isinstance(index.op, (ast.Add, ast.Sub)):
        if isinstance(index.op, ast.Add) == (step < 0):
            return view.source.segment(index.left)
        text, step = view.source.segment(index.left), 2 * step
    else:
        text = view.source.segment(index) if isinstance(index, ast.BinOp) else enclosed(view, index)
    return f"{text} {'+' if step > 0 else '-'} {abs(step)}"


def _sum(node: ast.BinOp) -> bool:
    return isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod))


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 1
