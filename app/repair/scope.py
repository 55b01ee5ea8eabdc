"""What is visible at a place of a module: names, attributes, functions and their parameters."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from .evidence import Evidence
from .knowledge import Knowledge
from .runtime_types import RuntimeTypes
from .source import FUNCTIONS, Function, ModuleSource

if TYPE_CHECKING:
    from .values import RuntimeValues

_Fact = TypeVar("_Fact")


class ModuleView:
    """A module's source with questions families ask about scope. Orders are source orders."""

    def __init__(
        self,
        source: ModuleSource,
        evidence: Evidence | None = None,
        knowledge: Knowledge | None = None,
        values: RuntimeValues | None = None,
    ) -> None:
        self.source = source
        self.evidence = evidence or Evidence()
        self.types = RuntimeTypes(source, values)
        self._knowledge = knowledge
        self._facts: dict[object, object] = {}
        self._locals: dict[ast.AST, tuple[str, ...]] = {}
        self._firsts: dict[ast.AST, dict[str, int]] = {}
        self._members: dict[ast.AST, tuple[str, ...]] = {}
        self._classes_by_use: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._constants: dict[tuple[ast.AST, type], tuple[object, ...]] = {}

    def type_of(self, name: str, line: int) -> str:
        """Run-time type of a name (or ``name.attribute``) in the function around a line; "" when not seen."""
        return self.types.type_of(name, line)

    def fit(self, old: str, new: str, node: ast.AST) -> float:
        """Factor on the weight of a proposal that puts one name in another's place; 0: it cannot be."""
        return self.types.fit(old, new, node, self.evidence.raised)

    @cached_property
    def knowledge(self) -> Knowledge:
        """Expressions of the project; of this file alone when nobody gathered more."""
        if self._knowledge is not None:
            return self._knowledge
        own = Knowledge()
        own.learn(self.source)
        return own

    # ------------------------------------------------------------ facts that families gather

    def remembered(self, key: str, gather: Callable[[ModuleView], _Fact]) -> _Fact:
        """A fact about the whole module, gathered once; ``key`` names it."""
        if key not in self._facts:
            self._facts[key] = gather(self)
        return self._facts[key]  # type: ignore[return-value]

    def remembered_of(self, node: ast.AST, gather: Callable[[ast.AST], _Fact]) -> _Fact:
        """A fact about one node, gathered once by each function that gathers it."""
        key = (gather, node)
        if key not in self._facts:
            self._facts[key] = gather(node)
        return self._facts[key]  # type: ignore[return-value]

    # ------------------------------------------------------------ names

    @cached_property
    def module_names(self) -> tuple[str, ...]:
        """Names bound at module level."""
        return tuple(dict.fromkeys(_bound(self.source.tree.body)))

    def local_names(self, function: Function) -> tuple[str, ...]:
        """Parameters, then names bound in the function's own body."""
        if function not in self._locals:
            names = [*parameters(function), *_bound(function.body)]
            self._locals[function] = tuple(dict.fromkeys(names))
        return self._locals[function]

    def names_at(self, node: ast.AST) -> tuple[str, ...]:
        """Local names (nearest function first) whose binding can have happened before the node."""
        found: dict[str, None] = {}
        inner = True
        for ancestor in self.source.ancestors(node):
            if isinstance(ancestor, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
                for generator in ancestor.generators:
                    found.update(dict.fromkeys(_targets(generator.target)))
            elif isinstance(ancestor, ast.Lambda):
                found.update(dict.fromkeys(_arguments(ancestor.args)))
            elif isinstance(ancestor, FUNCTIONS):
                names = self.local_names(ancestor)
                if inner:
                    line = getattr(node, "lineno", 0)
                    first = self._first_bound(ancestor)
                    in_loop = self.source.loop_of(node) is not None
                    names = tuple(name for name in names if in_loop or first.get(name, 0) <= line)
                found.update(dict.fromkeys(names))
                inner = False
        return tuple(found)

    def unused_names(self, node: ast.AST) -> frozenset[str]:
        """Parameters and variables of the function around a node that it never reads: forgotten, perhaps."""
        function = self.source.function_of(node)
        return frozenset() if function is None else self.remembered_of(function, self._unread)

    def _unread(self, function: ast.AST) -> frozenset[str]:
        if not isinstance(function, FUNCTIONS):
            return frozenset()
        read = {
            each.id
            for each in ast.walk(function)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
        }
        found = [name for name in self.local_names(function) if name not in read]
        return frozenset(name for name in found if name not in ("self", "cls") and not name.startswith("_"))

    def _first_bound(self, function: Function) -> dict[str, int]:
        if function not in self._firsts:
            first: dict[str, int] = {}
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    first[node.id] = min(first.get(node.id, node.lineno), node.lineno)
            self._firsts[function] = first | dict.fromkeys(parameters(function), 0)
        return self._firsts[function]

    # ------------------------------------------------------------ functions and classes

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Every function and method of the module by bare name (the first of each name)."""
        found: dict[str, Function] = {}
        for node in ast.walk(self.source.tree):
            if isinstance(node, FUNCTIONS):
                found.setdefault(node.name, node)
        return found

    @cached_property
    def module_functions(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.source.tree.body if isinstance(node, FUNCTIONS))

    def methods(self, owner: ast.ClassDef) -> tuple[Function, ...]:
        return tuple(node for node in owner.body if isinstance(node, FUNCTIONS))

    @cached_property
    def unpacked_results(self) -> dict[str, int]:
        """Bare name of a called function -> how many values the file unpacks its result into."""
        found: dict[str, int] = {}
        for node in ast.walk(self.source.tree):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            called, target = node.value.func, node.targets[0]
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if isinstance(target, ast.Tuple):
                found.setdefault(name, len(target.elts))
        return found

    @cached_property
    def called_names(self) -> frozenset[str]:
        """Names that the module calls or defines as functions or classes."""
        names = {
            node.func.id
            for node in ast.walk(self.source.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        names |= {n.name for n in ast.walk(self.source.tree) if isinstance(n, (*FUNCTIONS, ast.ClassDef))}
        return frozenset(names)

    @cached_property
    def called_attributes(self) -> frozenset[str]:
        return frozenset(
            node.func.attr
            for node in ast.walk(self.source.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        )

    # ------------------------------------------------------------ attributes

    def attributes_of(self, base: ast.expr) -> tuple[str, ...]:
        """Attributes used on the same object expression in this file (class members for ``self``)."""
        text = ast.unparse(base)
        owner = self.source.class_of(base) if isinstance(base, ast.Name) else None
        if owner is not None and text in ("self", "cls"):
            return self.members(owner)
        used = self._attributes_by_text.get(text, ())
        return (
            tuple(dict.fromkeys((*used, *self._of_its_class(used, owner))))
            if isinstance(base, ast.Name)
            else used
        )

    def _of_its_class(self, used: tuple[str, ...], here: ast.ClassDef | None) -> tuple[str, ...]:
        """Members of the class that has all these attributes: the one around, or the only one of the file."""
        if here is not None and used and set(self.members(here)).issuperset(used):
            return self.members(here)
        if len(used) < 2:
            return ()  # one name tells no class
        if used not in self._classes_by_use:
            owners = [each for each in ast.walk(self.source.tree) if isinstance(each, ast.ClassDef)]
            fitting = [each for each in owners if set(self.members(each)).issuperset(used)]
            self._classes_by_use[used] = self.members(fitting[0]) if len(fitting) == 1 else ()
        return self._classes_by_use[used]

    def members(self, owner: ast.ClassDef) -> tuple[str, ...]:
        """Attributes that a class's code uses on ``self`` or ``cls``, its methods, its class variables."""
        if owner not in self._members:
            names = [node.attr for node in _attributes(owner) if ast.unparse(node.value) in ("self", "cls")]
            names += [method.name for method in self.methods(owner)]
            names += list(_bound(owner.body))
            self._members[owner] = tuple(dict.fromkeys(names))
        return self._members[owner]

    @cached_property
    def exception_names(self) -> tuple[str, ...]:
        """Exception classes of the module, defined, imported or used."""
        names = [name for name in self.module_names if name.endswith(("Error", "Exception", "Warning"))]
        for node in ast.walk(self.source.tree):
            named = None
            if isinstance(node, ast.Raise):
                named = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            elif isinstance(node, ast.ExceptHandler):
                named = node.type
            elif isinstance(node, ast.ClassDef) and any(_is_exception(base) for base in node.bases):
                names.append(node.name)
            if isinstance(named, ast.Name) and named.id in self.module_names:
                names.append(named.id)
            value = getattr(builtins, node.id, None) if isinstance(node, ast.Name) else None
            if isinstance(node, ast.Name) and isinstance(value, type) and issubclass(value, BaseException):
                names.append(node.id)
        return tuple(dict.fromkeys(names))

    @cached_property
    def _attributes_by_text(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, dict[str, None]] = {}
        for node in _attributes(self.source.tree):
            found.setdefault(ast.unparse(node.value), {})[node.attr] = None
        return {text: tuple(names) for text, names in found.items()}

    # ------------------------------------------------------------ constants

    def constants(self, function: ast.AST, kind: type) -> tuple[object, ...]:
        """Distinct constants of exactly one type inside a node, without docstrings."""
        key = (function, kind)
        if key not in self._constants:
            seen: dict[object, None] = {}
            for node in ast.walk(function):
                plain = not self.source.is_docstring(node) and not self.source.inside_fstring(node)
                if plain and isinstance(node, ast.Constant) and type(node.value) is kind:
                    seen[node.value] = None
            self._constants[key] = tuple(seen)
        return self._constants[key]


def parameters(function: Function) -> tuple[str, ...]:
    """Parameter names in order, stars included without their stars."""
    return tuple(_arguments(function.args))


def is_method(function: Function, source: ModuleSource) -> bool:
    """Whether the first parameter is bound by the call (an instance or class method)."""
    if not isinstance(source.parents.get(function), ast.ClassDef):
        return False
    names = {each.id for each in function.decorator_list if isinstance(each, ast.Name)}
    return "staticmethod" not in names


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    for argument in (*arguments.posonlyargs, *arguments.args):
        yield argument.arg
    if arguments.vararg:
        yield arguments.vararg.arg
    for argument in arguments.kwonlyargs:
        yield argument.arg
    if arguments.kwarg:
        yield arguments.kwarg.arg


def _attributes(root: ast.AST) -> Iterator[ast.Attribute]:
    found = [node for node in ast.walk(root) if isinstance(node, ast.Attribute)]
    yield from sorted(found, key=lambda node: (node.lineno, node.col_offset, node.end_col_offset or 0))


def _targets(target: ast.AST) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            yield node.id


def _bound(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names a block binds, in source order, without entering nested functions and classes."""
    for statement in body:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            yield statement.name
            continue
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                yield (alias.asname or alias.name).split(".")[0]
            continue
        yield from _bound_in(statement)


def _bound_in(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id
        elif isinstance(child, ast.ExceptHandler):
            if child.name:
                yield child.name
            yield from _bound(child.body)
        elif isinstance(child, ast.stmt):
            yield from _bound([child])
        elif not isinstance(child, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            yield from _bound_in(child)


def _is_exception(base: ast.expr) -> bool:
    return isinstance(base, ast.Name) and base.id.endswith(("Error", "Exception", "Warning"))
