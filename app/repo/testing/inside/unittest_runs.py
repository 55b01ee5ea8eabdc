"""Runs unittest (discovery or named tests) and streams what happens."""

from __future__ import annotations

import argparse
import inspect
import io
import os
import sys
import unittest
from typing import Any, Dict, Iterator, List, Optional, Tuple

from .limits import TestTimeLimit
from .session import Session
from .stream import describe, line_in

_TEST_FOLDERS = ("tests", "test")


def _each(suite: Any) -> Iterator[Any]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _each(test)
        else:
            yield test


def _failed_import(test: Any) -> bool:
    return type(test).__name__ in ("_FailedTest", "ModuleImportFailure", "LoadTestsFailure")


class _Tee(io.TextIOBase):
    """Collects what a test prints and passes it on to the log."""

    def __init__(self, below: Any) -> None:
        self._below = below
        self.parts: List[str] = []

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.parts.append(text)
        return int(self._below.write(text) or 0)

    def flush(self) -> None:
        self._below.flush()

    @property
    def encoding(self) -> str:  # type: ignore[override,unused-ignore]
        return str(self._below.encoding)

    @property
    def buffer(self) -> Any:
        return self._below.buffer

    def fileno(self) -> int:
        return int(self._below.fileno())

    def isatty(self) -> bool:
        return False


class StreamingResult(unittest.TestResult):
    """One ``test`` event per test; the first bad thing about a test is kept."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._bad: Optional[Tuple[str, str, Optional[BaseException], str]] = None
        self._outcome = "passed"
        self._reason = ""
        self._running: Any = None
        self._tees: Tuple[Any, Any] = (None, None)
        self.finished: Dict[str, bool] = {}
        self.any_bad = False

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self._running, self._bad, self._outcome, self._reason = test, None, "passed", ""
        self._session.test_started(test.id())
        self._tees = (_Tee(sys.stdout), _Tee(sys.stderr))
        sys.stdout, sys.stderr = self._tees  # type: ignore[assignment,unused-ignore]
        self._session.clock.arm()

    def stopTest(self, test: Any) -> None:
        self._session.leave_if_forked(self._bad[2] if self._bad else None)
        self._session.clock.disarm()
        out, err = self._tees
        if sys.stdout is out:
            sys.stdout = out._below
        if sys.stderr is err:
            sys.stderr = err._below
        super().stopTest(test)
        outcome, phase, error, text = self._bad or (self._outcome, "", None, self._reason)
        sections = [("stdout", "".join(out.parts)), ("stderr", "".join(err.parts))]
        self._emit(
            test,
            outcome,
            phase,
            error,
            text,
            "".join("--- %s ---\n%s\n" % pair for pair in sections if pair[1]),
        )
        self._running = None
        if self._session.fail_fast and self._bad is not None:
            self.stop()

    def _emit(
        self, test: Any, outcome: str, phase: str, error: Optional[BaseException], text: str, output: str
    ) -> None:
        values: Dict[str, Any] = {"exception": "", "message": text, "frames": []}
        if error is not None:
            values = describe(error, self._session.places)
            if text:
                values["message"] = "%s: %s" % (text, values["message"])
            module = sys.modules.get(type(test).__module__)
            values["reached"] = line_in(error, getattr(module, "__file__", None) or "")
        path, line = _where(test, self._session)
        self.finished[test.id()] = True
        self.any_bad = self.any_bad or outcome in ("failed", "error", "timeout")
        self._session.test_ended(
            test.id(), outcome, phase=phase, output=output, path=path, line=line, **values
        )

    def _note(self, outcome: str, error: Any, text: str = "") -> None:
        value = error[1] if isinstance(error, tuple) else None
        if isinstance(value, TestTimeLimit):
            outcome = "timeout"
        if self._bad is None:
            self._bad = (outcome, "call", value, text)

    def addSuccess(self, test: Any) -> None:
        pass

    def addFailure(self, test: Any, err: Any) -> None:
        self._note("failed", err)

    def addError(self, test: Any, err: Any) -> None:
        if self._running is None:
            self._outside(test, err)
            return
        # An exception in the test's own body is a failure, as pytest has it; in setUp an error.
        names = _functions(err[2])
        own = getattr(test, "_testMethodName", "")
        self._note("failed" if own in names or "setUp" not in names else "error", err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._note("failed", err, str(getattr(subtest, "_subDescription", lambda: "")()))

    def addSkip(self, test: Any, reason: str) -> None:
        if self._running is None:
            self._skip_outside(test, reason)
            return
        self._outcome, self._reason = "skipped", reason

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self._outcome = "xfailed"

    def addUnexpectedSuccess(self, test: Any) -> None:
        self._note("failed", None, "unexpected success")

    def _outside(self, holder: Any, err: Any) -> None:
        """setUpClass, setUpModule and their tear-downs: every test they concern has an error."""
        for test in self._concerned(holder):
            self._session.test_started(test.id())
            self._emit(test, "error", "setup", err[1], str(holder).split(" ")[0], "")
        self.any_bad = True
        if self._session.fail_fast:
            self.stop()

    def _skip_outside(self, holder: Any, reason: str) -> None:
        for test in self._concerned(holder):
            self._session.test_started(test.id())
            self._emit(test, "skipped", "setup", None, reason, "")

    def _concerned(self, holder: Any) -> List[Any]:
        text = str(holder)
        name = text.partition("(")[2].rstrip(")")
        tear_down = text.startswith("tearDown")
        chosen = [test for test in self.planned if test.id().startswith(name + ".")]
        if tear_down:
            return chosen[-1:]
        return [test for test in chosen if test.id() not in self.finished]

    planned: List[Any] = []


def _functions(traceback: Any) -> List[str]:
    names: List[str] = []
    while traceback is not None:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    return names


def _where(test: Any, session: Session) -> Tuple[str, int]:
    try:
        method = getattr(test, getattr(test, "_testMethodName", ""), None)
        function: Any = inspect.unwrap(method) if method is not None else type(test)
        function = getattr(function, "__func__", function)
        filename = inspect.getfile(function)
        code = getattr(function, "__code__", None)
        return session.places.relative(filename) or filename, int(code.co_firstlineno) if code else 0
    except (TypeError, OSError, ValueError):
        # Tests made at run time have no source.
        return "", 0


def _options(args: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-s", "--start-directory", default=None)
    parser.add_argument("-p", "--pattern", default="test*.py")
    parser.add_argument("-t", "--top-level-directory", default=None)
    parser.add_argument("-k", action="append", default=None)
    for flag in ("-v", "-q", "-f", "-b", "-c"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("names", nargs="*")
    return parser.parse_args(args)


def _discover(loader: Any, options: argparse.Namespace) -> List[Any]:
    """The whole suite as ``python -m unittest`` sees it, or, when that is empty, the test folders'."""
    names = [name for name in options.names if name != "discover"]
    if names:
        return list(_each(loader.loadTestsFromNames([_dotted(name) for name in names])))
    if options.start_directory:
        return list(
            _each(loader.discover(options.start_directory, options.pattern, options.top_level_directory))
        )
    tests = list(_each(loader.discover(".", options.pattern)))
    for folder in _TEST_FOLDERS:
        if os.path.isdir(folder) and not os.path.isfile(os.path.join(folder, "__init__.py")):
            # One loader remembers its first top-level directory.
            fresh = unittest.TestLoader()
            tests.extend(_each(fresh.discover(folder, options.pattern, folder)))
    return tests


def _dotted(name: str) -> str:
    """``tests/test_x.py`` as ``tests.test_x``."""
    if name.endswith(".py") and os.path.isfile(name):
        return name[:-3].replace(os.sep, ".").replace("/", ".")
    return name


def run_unittest(session: Session) -> int:
    """Runs in this process; returns 0 (all good), 1 (something bad), 2 (bad arguments), 5 (no tests)."""
    try:
        options = _options(session.request["args"])
    except SystemExit:
        session.problem("usage", "unittest does not know these arguments: %s" % session.request["args"])
        return 2
    session.clock.catch_crashes()
    session.stream.emit("framework", name="unittest", version=sys.version.split()[0])
    loader: Any = unittest.TestLoader()
    if options.k:
        loader.testNamePatterns = [k if "*" in k else "*%s*" % k for k in options.k]
    session.clock.new_test()
    session.clock.arm()
    try:
        found = _discover(loader, options)
    except (ImportError, TypeError) as error:
        session.problem("usage", str(error))
        return 2
    except TestTimeLimit as error:
        session.collection_error("", error)
        return 2
    finally:
        session.clock.disarm()
    tests: List[Any] = []
    broken = False
    for test in found:
        if _failed_import(test):
            broken = True
            _report_broken(test, session)
        elif session.selection.takes(test.id()):
            tests.append(test)
    session.collected([test.id() for test in tests])
    if session.collect_only:
        return 0
    if session.serve is not None:

        def run(indexes: List[int], stop_first: bool) -> None:
            session.fail_fast = stop_first
            chosen = [tests[index] for index in indexes]
            partial = StreamingResult(session)
            partial.planned = chosen
            unittest.TestSuite(chosen).run(partial)

        session.serve(session, [test.id() for test in tests], run)
        return 0
    result = StreamingResult(session)
    result.planned = tests
    suite = unittest.TestSuite(tests)
    suite.run(result)
    if not tests and not broken:
        return 5
    return 1 if result.any_bad or broken else 0


def _report_broken(test: Any, session: Session) -> None:
    """A module that could not be imported; it is imported once more to have the exception itself."""
    name: str = getattr(test, "_testMethodName", "")
    path = name.replace(".", "/") + ".py"
    for folder in ("", *_TEST_FOLDERS):
        if os.path.isfile(os.path.join(folder, path)):
            path = os.path.join(folder, path)
            break
    session.clock.new_test()
    session.clock.arm()
    try:
        __import__(name)
    except BaseException as error:  # noqa: BLE001  importing a broken module may raise anything
        session.collection_error(path, error)
    else:
        stored = getattr(test, "_exception", None)
        session.collection_error(path, stored if isinstance(stored, BaseException) else None, str(stored))
    finally:
        session.clock.disarm()
