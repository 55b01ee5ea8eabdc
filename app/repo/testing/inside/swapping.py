"""Exchanging the code of functions in a process that has already imported them.

This equals editing the file before the import only when nothing but one function's code
changes and that function had not run yet. Both are checked here; what does not qualify is
refused with the reason, and has to be imported anew elsewhere.
"""

from __future__ import annotations
import __future__

import ast
import gc
import os
import sys
import threading
import types
from typing import Any, Dict, List, Set, Tuple

from .overlay import apply_edits, read_text, show

Key = Tuple[str, int, str]
"""File, first line and name of a code object."""

_FUTURES = sum(getattr(__future__, name).compiler_flag for name in set(__future__.all_feature_names))
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SHAPE = ("co_name", "co_freevars", "co_cellvars", "co_names", "co_varnames", "co_flags", "co_code")
_NO_CODE = "the function has no code of its own"


class Refused(Exception):
    """This edit cannot be made by exchanging code."""


def key_of(code: Any) -> Key:
    return (code.co_filename, code.co_firstlineno, code.co_name)


class CallRecord:
    """Which functions of the repository ran between ``start`` and ``stop``."""

    def __init__(self, root: str) -> None:
        self._prefix = root.rstrip(os.sep) + os.sep
        self._tool = -1
        self.ran: Set[Key] = set()

    def start(self) -> None:
        prefix, ran = self._prefix, self.ran
        if hasattr(sys, "monitoring"):
            monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
            self._tool = next((n for n in (4, 3, 2, 5, 1, 0) if monitoring.get_tool(n) is None), -1)
            if self._tool >= 0:
                disable = monitoring.DISABLE

                def on_start(code: Any, _offset: int) -> Any:
                    if code.co_filename.startswith(prefix):
                        ran.add(key_of(code))
                    return disable

                monitoring.use_tool_id(self._tool, "whimbrel-calls")
                monitoring.register_callback(self._tool, monitoring.events.PY_START, on_start)
                monitoring.set_events(self._tool, monitoring.events.PY_START)
                return

        def on_call(frame: Any, event: str, _argument: Any) -> None:
            if event == "call":
                code = frame.f_code
                if code.co_filename.startswith(prefix):
                    ran.add(key_of(code))

        threading.setprofile(on_call)
        sys.setprofile(on_call)

    def stop(self) -> None:
        if self._tool >= 0:
            monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
            monitoring.set_events(self._tool, 0)
            monitoring.free_tool_id(self._tool)
            return
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


class Swap:
    """What to do in the child: give these functions that code."""

    def __init__(self, functions: List[Any], code: Any, path: str, text: str) -> None:
        self.functions = functions
        self.code = code
        self._path = path
        self._text = text

    def apply(self) -> None:
        for function in self.functions:
            function.__code__ = self.code
        show(self._path, self._text)


class _File:
    """One source file as it was imported."""

    def __init__(self, path: str, loaded_as: str) -> None:
        self.loaded_as = loaded_as
        self.text = read_text(path)
        self.tree = ast.parse(self.text)
        whole: Any = compile(self.text, loaded_as, "exec", dont_inherit=True)
        self.flags = whole.co_flags & _FUTURES
        self.starts = _line_starts(self.text)
        self.old: Dict[int, List[Any]] = {}

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
        ran: functions that have run already.
    """

    def __init__(self, root: str, ran: Set[Key]) -> None:
        self._root = root
        self._ran = ran
        self._live: Dict[str, List[Any]] = {}
        self._files: Dict[str, _File] = {}
        prefix = root.rstrip(os.sep) + os.sep
        for thing in gc.get_objects():
            if type(thing) is types.FunctionType:
                filename = thing.__code__.co_filename
                if filename.startswith(prefix):
                    self._live.setdefault(filename, []).append(thing)
        self._modules: Dict[str, str] = {}
        for module in list(sys.modules.values()):
            loaded_as = getattr(module, "__file__", None)
            if isinstance(loaded_as, str) and loaded_as.endswith(".py"):
                self._modules[os.path.realpath(loaded_as)] = loaded_as

    def is_imported(self, relative: str) -> bool:
        return os.path.realpath(os.path.join(self._root, relative)) in self._modules

    def plan(self, relative: str, edits: List[List[Any]]) -> Swap:
        """Raises Refused, or SyntaxError when the edited text is not Python."""
        path = os.path.join(self._root, relative)
        loaded_as = self._modules.get(os.path.realpath(path))
        if loaded_as is None:
            raise Refused("the module is not imported yet")
        if relative not in self._files:
            self._files[relative] = _File(path, loaded_as)
        file = self._files[relative]
        headers, node = self._around(file, edits)
        start, end = file.span(node)
        inner = [[edit[0] - start, edit[1] - start, edit[2]] for edit in edits]
        if node.lineno not in file.old:
            file.old[node.lineno] = _compile(file, headers, node.name, start, file.text[start:end])
        old = file.old[node.lineno]
        new = _compile(file, headers, node.name, start, apply_edits(file.text[start:end], inner))
        self._require_same_outside(old, new)
        functions = self._functions(old[-1])
        return Swap(functions, new[-1], loaded_as, apply_edits(file.text, edits))

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

    def _functions(self, old: Any) -> List[Any]:
        key = key_of(old)
        if key in self._ran:
            raise Refused("the function ran while the tests were imported")
        found = [
            function
            for function in self._live.get(old.co_filename, ())
            if key_of(function.__code__) == key and function.__code__.co_code == old.co_code
        ]
        if not found:
            raise Refused("no live function has this code")
        return found


def _compile(file: _File, headers: List[str], name: str, start: int, text: str) -> List[Any]:
    """Code objects from the module down to the function, with the line numbers of the file."""
    line = file.starts.index(start)
    lines = [" " * depth + header for depth, header in enumerate(headers)]
    source = "\n" * (line - len(lines)) + "".join(each + "\n" for each in lines) + text
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
    return chain


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
    return (*(getattr(code, name) for name in _SHAPE), constants)


def _line_starts(text: str) -> List[int]:
    starts = [0]
    position = 0
    for line in text.splitlines(True):
        # Only the line ends that the compiler knows.
        position += len(line)
        if line.endswith(("\n", "\r")):
            starts.append(position)
    return starts
