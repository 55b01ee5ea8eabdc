"""Exchanging the code of functions in a process that has already imported them.

This equals editing the file before the import only when nothing but the code of functions
changes and none of those had run yet. Both are checked here; what does not qualify is
refused with the reason, and has to be imported anew elsewhere.
"""

from __future__ import annotations
import __future__

import ast
import gc
import inspect
import os
import sys
import types
import warnings
from typing import Any, Dict, List, Set, Tuple

from .overlay import SourceText, apply_edits, lay, show
from .recording import CallRecord, key_of

_FUTURES = sum(getattr(__future__, name).compiler_flag for name in set(__future__.all_feature_names))
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SHAPE = ("co_name", "co_freevars", "co_cellvars", "co_names", "co_varnames", "co_flags", "co_code")
_LATER_SHAPE = ("co_exceptiontable",)
_NO_CODE = "the function has no code of its own"
_KIND = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)
_SUSPENDED = (
    (types.GeneratorType, "gi_code"),
    (types.CoroutineType, "cr_code"),
    (types.AsyncGeneratorType, "ag_code"),
)


class Refused(Exception):
    """This edit cannot be made by exchanging code."""


class Swap:
    """What to do in the child: give functions of one file the code beside them."""

    def __init__(self, codes: List[Tuple[Any, Any]], path: str, text: str, content: bytes) -> None:
        self.codes = codes
        self._path = path
        self._text = text
        self._content = content

    def apply(self) -> None:
        for function, code in self.codes:
            function.__code__ = code
        # Tests also reload modules, run them again under other names, and show their source.
        show(self._path, self._text)
        lay({self._path: self._text}, {self._path: self._content})


class _File:
    """One source file as it was imported."""

    def __init__(self, path: str, loaded_as: str) -> None:
        self.loaded_as = loaded_as
        source = SourceText(path)
        self.encode = source.encode
        self.text = source.text
        self.tree = ast.parse(self.text)
        whole: Any = compile(self.text, loaded_as, "exec", dont_inherit=True)
        self.flags = whole.co_flags & _FUTURES
        self.starts = _line_starts(self.text)
        # From 3.11 on calls through imported names are compiled in another way.
        names = _imported(self.tree.body)
        self.imports = "\nimport %s\n" % ", ".join("_ as %s" % each for each in names) if names else ""
        self.old: Dict[int, Tuple[List[Any], List[str]]] = {}

    def span(self, node: Any) -> Tuple[int, int]:
        """Offsets of the whole lines of a statement, decorators included."""
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        last = node.end_lineno
        end = self.starts[last] if last < len(self.starts) else len(self.text)
        return self.starts[first - 1], end


class Swapper:
    """Finds out whether, and how, an edit can be made by exchanging code.

    Make it when all imports are done and before ``gc.freeze``.

    Args:
        root: the repository.
        record: what happened while the tests were imported.
    """

    def __init__(self, root: str, record: CallRecord) -> None:
        self._root = root
        self._record = record
        self._ran = set(record.ran)
        self._live: Dict[str, List[Any]] = {}
        self._files: Dict[str, _File] = {}
        prefixes = tuple({each.rstrip(os.sep) + os.sep for each in (root, os.path.realpath(root))})
        # What was frozen is not listed, and there may be functions in it.
        gc.unfreeze()
        for thing in gc.get_objects():
            kind = type(thing)
            if kind is types.FunctionType:
                filename = thing.__code__.co_filename
                if filename.startswith(prefixes):
                    self._live.setdefault(filename, []).append(thing)
                continue
            for suspended, name in _SUSPENDED:
                if kind is suspended:
                    # Created and not begun: it would go on with the code it was created with.
                    self._ran.add(key_of(getattr(thing, name)))
        self._loaded: Dict[str, Set[str]] = {}
        for module in list(sys.modules.values()):
            loaded_as = getattr(module, "__file__", None)
            if isinstance(loaded_as, str) and loaded_as.endswith(".py"):
                self._loaded.setdefault(os.path.realpath(loaded_as), set()).add(loaded_as)
        self._executed = {
            os.path.realpath(os.path.join(root, filename)) for filename, _line, _name in self._ran
        }

    def is_imported(self, relative: str) -> bool:
        """Whether any code of the file ran; its module may be gone since."""
        path = os.path.realpath(os.path.join(self._root, relative))
        return path in self._loaded or path in self._executed or path in self._record.before

    def require_unread(self, relative: str) -> None:
        """Raises Refused when the file may have had an effect besides its import."""
        path = os.path.realpath(os.path.join(self._root, relative))
        if path in self._record.read:
            raise Refused("the project reads this file as text while the tests are imported")
        if path in self._record.before:
            raise Refused("the module was imported before calls were recorded")
        if not self._record.complete:
            raise Refused("the project sets a profiler of its own while the tests are imported")

    def plan(self, relative: str, edits: List[List[Any]]) -> Swap:
        """Raises Refused, or SyntaxError when the edited text is not Python."""
        self.require_unread(relative)
        path = os.path.join(self._root, relative)
        names = self._loaded.get(os.path.realpath(path), set())
        if not names:
            raise Refused("the module is not imported yet, or not any more")
        if len(names) > 1:
            raise Refused("the module was imported from more than one path")
        loaded_as = next(iter(names))
        if relative not in self._files:
            self._files[relative] = _File(path, loaded_as)
        file = self._files[relative]
        text = apply_edits(file.text, edits)
        codes: List[Tuple[Any, Any]] = []
        for group, headers, node in self._by_function(file, edits):
            codes.extend(self._codes(file, group, headers, node, text))
        return Swap(codes, loaded_as, text, file.encode(text))

    def _by_function(
        self, file: _File, edits: List[List[Any]]
    ) -> List[Tuple[List[List[Any]], List[str], Any]]:
        """The edits of each outermost function, with what ``_around`` says of it."""
        try:
            return [(edits, *self._around(file, edits))]
        except Refused:
            if len(edits) == 1:
                raise
        groups: Dict[int, Tuple[List[List[Any]], List[str], Any]] = {}
        for edit in edits:
            headers, node = self._around(file, [edit])
            groups.setdefault(node.lineno, ([], headers, node))[0].append(edit)
        return list(groups.values())

    def _codes(
        self, file: _File, edits: List[List[Any]], headers: List[str], node: Any, whole: str
    ) -> List[Tuple[Any, Any]]:
        """The live functions of a definition with their new code; ``whole`` is the file with all edits."""
        start, end = file.span(node)
        inner = [[edit[0] - start, edit[1] - start, edit[2]] for edit in edits]
        if node.lineno not in file.old:
            file.old[node.lineno] = _compile(file, headers, node.name, start, file.text[start:end])
        old, known = file.old[node.lineno]
        try:
            new, told = _compile(file, headers, node.name, start, apply_edits(file.text[start:end], inner))
        except SyntaxError:
            # It may belong together with what follows.
            compile(whole, file.loaded_as, "exec", dont_inherit=True)
            raise Refused("the edit is no function's alone") from None
        if told != known:
            # Whether that is shown, ignored or an error is up to the project's filters at import.
            raise Refused("the compiler warns about the edit")
        self._require_same_outside(old, new)
        return [(function, new[-1]) for function in self._functions(old[-1])]

    def _around(self, file: _File, edits: List[List[Any]]) -> Tuple[List[str], Any]:
        """Headers of the blocks around the outermost function that holds all edits, and the function."""
        first = min(edit[0] for edit in edits)
        last = max(edit[1] for edit in edits)
        headers: List[str] = []
        body: List[Any] = list(file.tree.body)
        while True:
            found = None
            for node in body:
                start, end = file.span(node)
                if start <= first and last <= end and not first == last == start:
                    found = node
                    if not (first == last == end):
                        break
            if found is None:
                raise Refused("the edit is outside of functions")
            if isinstance(found, _FUNCTIONS):
                return headers, found
            if isinstance(found, ast.ClassDef):
                headers.append("class %s:" % found.name)
                body = found.body
            elif isinstance(found, (ast.If, ast.Try, ast.With)):
                headers.append("if 1:")
                body = [*found.body, *getattr(found, "orelse", ()), *getattr(found, "finalbody", ())]
                for handler in getattr(found, "handlers", ()):
                    body.extend(handler.body)
            else:
                raise Refused("the edit is outside of functions")

    def _require_same_outside(self, old: List[Any], new: List[Any]) -> None:
        if len(old) != len(new):
            raise Refused("more than one function's code changes")
        for depth in range(len(old) - 1):
            if _shape(old[depth], old[depth + 1]) != _shape(new[depth], new[depth + 1]):
                raise Refused("defaults, decorators or names change")
        if old[-1].co_name != new[-1].co_name or old[-1].co_freevars != new[-1].co_freevars:
            raise Refused("the function's name or its free variables change")
        if _interface(old[-1]) != _interface(new[-1]):
            raise Refused("the function's arguments, documentation or kind change")

    def _functions(self, old: Any) -> List[Any]:
        key = key_of(old)
        if key in self._ran:
            raise Refused("the function ran while the tests were imported")
        found: List[Any] = []
        shape = _shape(old)
        for function in self._live.get(old.co_filename, ()):
            code = function.__code__
            if code.co_firstlineno != old.co_firstlineno or code.co_name == "<lambda>":
                continue
            if key_of(code) != key or _shape(code) != shape:
                raise Refused("a decorator or an import hook made other code of the function")
            found.append(function)
        if not found:
            raise Refused("no live function has this code")
        return found


def _compile(
    file: _File, headers: List[str], name: str, start: int, text: str
) -> Tuple[List[Any], List[str]]:
    """Code objects from the module down to the function, with the line numbers of the file; warnings."""
    line = file.starts.index(start)
    lines = [" " * depth + header for depth, header in enumerate(headers)]
    source = "\n" * (line - len(lines)) + "".join(each + "\n" for each in lines) + text + file.imports
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        code: Any = compile(source, file.loaded_as, "exec", flags=file.flags, dont_inherit=True)
    names = [header[len("class ") : -1] for header in headers if header.startswith("class ")]
    chain = [code]
    for wanted in [*names, name]:
        # Lambdas and annotations have code as well.
        nested = [
            each
            for each in chain[-1].co_consts
            if isinstance(each, types.CodeType) and each.co_name == wanted
        ]
        if len(nested) != 1:
            raise Refused(_NO_CODE)
        chain.append(nested[0])
    return chain, sorted(str(each.message) for each in told)


def _imported(body: List[Any]) -> List[str]:
    """Names that imports of the module itself bind, wherever they stand."""
    found: Set[str] = set()
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(
                (each.asname or each.name).partition(".")[0] for each in node.names if each.name != "*"
            )
        elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                inner = getattr(node, field, None)
                if isinstance(inner, list):
                    found.update(_imported(inner))
    return sorted(found)


def _shape(code: Any, leave_out: Any = None) -> Tuple[Any, ...]:
    """Everything about a code object that matters when it runs, except for one code object in it."""
    constants: List[Any] = []
    for each in code.co_consts:
        if each is leave_out:
            constants.append("")
        elif isinstance(each, types.CodeType):
            constants.append(_shape(each))
        else:
            # 1, True and 1.0 are equal and not the same.
            constants.append((type(each).__name__, repr(each)))
    later = (getattr(code, name, b"") for name in _LATER_SHAPE)
    return (*(getattr(code, name) for name in _SHAPE), *later, constants)


def _interface(code: Any) -> Tuple[Any, ...]:
    """What decorators and frameworks learn about a function without calling it."""
    counts = (code.co_argcount, getattr(code, "co_posonlyargcount", 0), code.co_kwonlyargcount)
    named = counts[0] + counts[2]
    kind = code.co_flags & _KIND
    named += bool(kind & inspect.CO_VARARGS) + bool(kind & inspect.CO_VARKEYWORDS)
    first = code.co_consts[0] if code.co_consts else None
    return (*counts, code.co_varnames[:named], kind, first if isinstance(first, str) else None)


def _line_starts(text: str) -> List[int]:
    starts = [0]
    position = 0
    for line in text.splitlines(True):
        # Only the line ends that the compiler knows.
        position += len(line)
        if line.endswith(("\n", "\r")):
            starts.append(position)
    return starts
