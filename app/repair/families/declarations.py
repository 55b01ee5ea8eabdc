"""What a class's declaration makes: hashing, ordering, frozen or not, the kind of enumeration."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..blocks import end_of
from ..family import Family, Harm, Proposal
from ..scope import ModuleView
from ..source import FUNCTIONS, Edit, Function

_DATACLASS = "dataclass"
_SWITCHES = ("frozen", "order")
_ENUMS = {"Enum": ("IntEnum", "StrEnum"), "IntEnum": ("Enum",), "Flag": ("IntFlag",), "StrEnum": ("Enum",)}
_ORDERING = ("__lt__", "__le__", "__gt__", "__ge__")


class Declarations(Family):
    name = "declaration"
    prior = 0.7
    fault = "declared the class without what its use needs"
    boosts = {"TypeError": 1.4, "FrozenInstanceError": 1.4}  # noqa: RUF012

    def propose(self, node: ast.AST, view: ModuleView) -> Iterator[Proposal]:
        if not isinstance(node, ast.ClassDef):
            return
        for decorator in node.decorator_list:
            yield from self._dataclass(decorator, view)
        methods = {each.name: each for each in node.body if isinstance(each, FUNCTIONS)}
        yield from self._hash(node, methods, view)
        if "total_ordering" in view.module_names and len(methods.keys() & set(_ORDERING)) == 1:
            start = view.source.line_start(view.source.span(node)[0])
            indent = view.source.indent(node)
            edit = Edit(start, start, f"{indent}@total_ordering{view.source.newline}")
            yield Proposal((edit,), "orders by the one comparison there is", 0.8)
        for base in node.bases:
            for other in _ENUMS.get(base.id, ()) if isinstance(base, ast.Name) else ():
                if other in view.module_names:
                    yield Proposal((Edit(*view.source.span(base), other),), f"makes it {other}", 0.6)

    def _dataclass(self, decorator: ast.expr, view: ModuleView) -> Iterator[Proposal]:
        call = decorator if isinstance(decorator, ast.Call) else None
        name = call.func if call else decorator
        simple = name.id if isinstance(name, ast.Name) else getattr(name, "attr", "")
        if simple != _DATACLASS:
            return
        start, end = view.source.span(decorator)
        given = {each.arg: each for each in call.keywords} if call else {}
        for switch in _SWITCHES:
            if switch not in given:
                head = view.source.text[start:end] if call is None else view.source.text[start : end - 1]
                opening = "(" if call is None else "" if head.rstrip().endswith(("(", ",")) else ", "
                text = f"{head}{opening}{switch}=True)"
                yield Proposal((Edit(start, end, text),), f"declares it with {switch}=True", 0.8)
        for keyword, value in given.items():
            known = value.value
            if keyword and isinstance(known, ast.Constant) and isinstance(known.value, bool):
                flipped = str(not known.value)
                edit = Edit(*view.source.span(known), flipped)
                yield Proposal((edit,), f"declares it with {keyword}={flipped}", 0.7)

    def _hash(self, node: ast.ClassDef, methods: dict[str, Function], view: ModuleView) -> Iterator[Proposal]:
        """Equality without a hash makes instances unhashable: the hash of what equality compares."""
        equality = methods.get("__eq__")
        if equality is None or "__hash__" in methods or "__hash__" in _assigned(node):
            return
        used = [each for each in ast.walk(equality) if isinstance(each, ast.Attribute)]
        own = [each.attr for each in used if isinstance(each.value, ast.Name) and each.value.id == "self"]
        compared = [name for name in dict.fromkeys(own) if name not in methods]
        if not compared or not view.source.alone_on_lines(equality):
            return
        indent, step = view.source.indent(equality), view.source.indent_unit
        fields = ", ".join(f"self.{name}" for name in compared)
        value = f"hash({fields})" if len(compared) == 1 else f"hash(({fields}))"
        newline = view.source.newline
        text = f"{newline}{indent}def __hash__(self):{newline}{indent}{step}return {value}{newline}"
        at = end_of(view, equality)
        yield Proposal((Edit(at, at, text),), "adds the hash of what is compared", 0.9, Harm.PRECISE)


def _assigned(node: ast.ClassDef) -> set[str]:
    return {
        target.id
        for each in node.body
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
