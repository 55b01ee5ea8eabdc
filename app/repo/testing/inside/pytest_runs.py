"""Runs pytest (5.4 to 9) with a plugin of ours that streams what happens.

Public hooks only, except for ``Config.getini``, which is wrapped to filter the
project's default options before pytest parses them.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import sys
from typing import Any, Dict, Generator, List, Optional, Tuple

from .limits import TestTimeLimit
from .pytest_setup import arguments, filter_default_options, keep_rewritten_tests_fresh
from .session import Session
from .stream import describe, line_in, message_of


def _unwrap(error: BaseException) -> BaseException:
    """The project's own exception inside pytest's wrappers."""
    for _ in range(5):
        kind = type(error).__name__
        if kind == "ConftestImportFailure":
            inner: Any = getattr(error, "cause", None)
            old: Any = getattr(error, "excinfo", None)
            if inner is None and isinstance(old, tuple) and len(old) > 1:
                inner = old[1]
            inner = inner or error.__cause__
        elif kind == "CollectError":
            inner = error.__cause__ or error.__context__
        else:
            return error
        if not isinstance(inner, BaseException):
            return error
        error = inner
    return error


class _Phases:
    """What is known about the running test so far."""

    def __init__(self) -> None:
        self.outcome = "passed"
        self.phase = ""
        self.error: Optional[BaseException] = None
        self.text = ""
        self.sections: List[Tuple[str, str]] = []

    def worsen(self, outcome: str, phase: str, error: Optional[BaseException], text: str) -> None:
        self.outcome, self.phase, self.error, self.text = outcome, phase, error, text


class WhimbrelPlugin:
    """Hooks; see the module's docstring."""

    def __init__(self, session: Session, pytest: Any) -> None:
        self._session = session
        self._pytest = pytest
        self._current: Optional[_Phases] = None
        self._bad = False

    # -- configuration ---------------------------------------------------------------

    def pytest_configure(self, config: Any) -> None:
        option = config.option
        self._session.own_temporary_files = functools.partial(_move_temporary_files, config)
        for name, value in (
            ("numprocesses", None),
            ("dist", "no"),
            ("tx", []),
            ("maxfail", 0),
            ("reruns", 0),
            ("randomly_reorganize", False),
            ("randomly_seed", self._session.request["seed"]),
        ):
            if hasattr(option, name):
                setattr(option, name, value)

    def pytest_sessionstart(self) -> None:
        # After pytest's own plugin, which sends crash stacks to the log.
        self._session.clock.catch_crashes()

    def pytest_cmdline_parse(self) -> Generator[None, Any, None]:
        outcome = yield
        self._note_failure(outcome)

    def pytest_load_initial_conftests(self) -> Generator[None, Any, None]:
        outcome = yield
        self._note_failure(outcome)

    def _note_failure(self, outcome: Any) -> None:
        info = getattr(outcome, "excinfo", None)
        if not info:
            return
        error: BaseException = info[1]
        inner = _unwrap(error)
        if type(error).__name__ == "UsageError":
            self._session.problem("usage", message_of(error))
        elif inner is not error:
            self._session.collection_error(self._conftest_path(error), inner)
        elif not isinstance(error, SystemExit):
            self._session.problem("configuration", "%s: %s" % (type(error).__name__, message_of(error)))
            self._session.collection_error("", error)

    def _conftest_path(self, error: BaseException) -> str:
        path = str(getattr(error, "path", "") or "")
        return self._session.places.relative(path) or path

    # -- collection ------------------------------------------------------------------

    def pytest_make_collect_report(self, collector: Any) -> Generator[None, Any, None]:
        path = self._path(collector)
        is_file = isinstance(collector, self._pytest.File)
        if is_file:
            self._session.stream.emit("collecting", path=path)
            self._session.clock.new_test()
            self._session.clock.arm()
        outcome = yield
        if is_file:
            self._session.clock.disarm()
        info = getattr(outcome, "excinfo", None)
        if info:
            self._session.collection_error(path, _unwrap(info[1]))
            return
        report = outcome.get_result()
        if report.outcome != "failed":
            return
        call = getattr(report, "call", None)
        excinfo = getattr(call, "excinfo", None)
        error = None if excinfo is None else _unwrap(excinfo.value)
        self._session.collection_error(path, error, str(report.longrepr))

    def pytest_collection_modifyitems(self, config: Any, items: List[Any]) -> Generator[None, Any, None]:
        yield
        kept: List[Any] = []
        gone: List[Any] = []
        for item in items:
            (kept if self._session.selection.takes(self._id(item)) else gone).append(item)
        if gone:
            items[:] = kept
            config.hook.pytest_deselected(items=gone)

    def pytest_collection_finish(self, session: Any) -> None:
        self._session.collected([self._id(item) for item in session.items])

    def pytest_internalerror(self, excinfo: Any) -> None:
        error = excinfo.value
        inner = _unwrap(error)
        if inner is not error:
            self._session.collection_error(self._conftest_path(error), inner)
            return
        self._session.stream.emit("internal_error", **describe(error, self._session.places))

    # -- running ---------------------------------------------------------------------

    def pytest_runtestloop(self, session: Any) -> Optional[bool]:
        if self._session.serve is None:
            return None
        items: List[Any] = list(session.items)
        _work_ahead(session.config, items)

        def run(indexes: List[int], stop_first: bool) -> None:
            chosen: List[Any] = [*(items[index] for index in indexes), None]
            for position, item in enumerate(chosen[:-1]):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=chosen[position + 1])
                if stop_first and self._bad:
                    _tear_down(item)
                    return

        self._session.serve(self._session, [self._id(item) for item in items], run)
        return True

    def pytest_runtest_protocol(self, item: Any) -> Generator[None, Any, None]:
        test_id = self._id(item)
        self._current = _Phases()
        self._session.test_started(test_id)
        yield
        phases = self._current or _Phases()
        self._current = None
        values: Dict[str, Any] = {"exception": "", "message": phases.text, "frames": []}
        if phases.error is not None and self._session.serve is None:
            values = describe(phases.error, self._session.places)
        if phases.error is not None and self._session.serve is not None:
            values["reached"] = line_in(phases.error, str(getattr(item, "path", None) or item.fspath))
        location = item.location
        self._session.test_ended(
            test_id,
            phases.outcome,
            phase=phases.phase,
            output="".join("--- %s ---\n%s\n" % section for section in phases.sections),
            path=self._path(item),
            line=(location[1] or 0) + 1,
            **values,
        )
        self._bad = phases.outcome in ("failed", "error", "timeout")
        if self._session.fail_fast and self._bad and self._session.serve is None:
            item.session.shouldfail = "stopped at the first failure"

    def pytest_runtest_setup(self, item: Any) -> Generator[None, Any, None]:
        self._session.clock.arm()
        yield
        self._session.clock.disarm()

    def pytest_runtest_call(self, item: Any) -> Generator[None, Any, None]:
        self._session.clock.arm()
        yield
        self._session.clock.disarm()

    def pytest_runtest_teardown(self, item: Any) -> Generator[None, Any, None]:
        self._session.clock.arm(at_least=min(5.0, self._session.clock.seconds))
        yield
        self._session.clock.disarm()

    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, None]:
        self._session.leave_if_forked(None if call.excinfo is None else call.excinfo.value)
        if self._session.serve is not None:
            # Nobody reads why a candidate failed, and writing a traceback costs more than most tests.
            item.repr_failure = item._repr_failure_py = _no_text
        outcome = yield
        report = outcome.get_result()
        phases = self._current
        if phases is None:
            return
        if report.when == "setup":
            # Also the start of a re-run by the project's own @flaky marks.
            phases = self._current = _Phases()
        phases.sections = [(str(name), str(text)) for name, text in report.sections]
        error = None if call.excinfo is None else call.excinfo.value
        if isinstance(error, TestTimeLimit):
            phases.worsen("timeout", report.when, error, "")
        elif report.outcome == "failed":
            if phases.outcome in ("failed", "timeout", "error"):
                return
            kind = "failed" if report.when == "call" else "error"
            phases.worsen(kind, report.when, error, "" if error is not None else str(report.longrepr)[:4000])
        elif hasattr(report, "wasxfail"):
            if report.when == "call" or report.skipped:
                reason = str(report.wasxfail)
                phases.worsen("xfailed" if report.skipped else "xpassed", report.when, None, reason)
        elif report.outcome == "skipped":
            phases.worsen("skipped", report.when, None, "" if error is None else message_of(error))

    def pytest_runtest_logreport(self, report: Any) -> None:
        phases = self._current
        if phases is None or "ubtest" not in type(report).__name__.lower().replace("_", ""):
            return
        if report.outcome == "failed" and phases.outcome == "passed":
            crash = getattr(report.longrepr, "reprcrash", None)
            text = str(getattr(crash, "message", "")) or str(report.longrepr)[:4000]
            phases.worsen("failed", "call", None, text)

    # -- names -----------------------------------------------------------------------

    def _path(self, node: Any) -> str:
        raw = getattr(node, "path", None) or getattr(node, "fspath", None)
        text = str(raw or "")
        return self._session.places.relative(text) or text

    def _id(self, item: Any) -> str:
        """Repository-relative path and the rest of pytest's own id, whatever its rootdir is."""
        _head, colons, rest = item.nodeid.partition("::")
        path = self._path(item)
        return path + colons + rest if path else item.nodeid


def _work_ahead(config: Any, items: List[Any]) -> None:
    """What pytest works out once for each test, before the forks that would do it again and again."""
    for item in items:
        with contextlib.suppress(Exception):
            _kept = (item.ihook, item.location)
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    for name in ("showfspath", "_show_progress_info"):
        if hasattr(reporter, name):
            # Nobody reads it.
            setattr(reporter, name, False)


def _tear_down(item: Any) -> None:
    """Ends the fixtures of wider scopes that were to be used by the tests left out."""
    state: Any = getattr(item.session, "_setupstate", None)
    try:
        if hasattr(state, "teardown_all"):
            state.teardown_all()
        else:
            state.teardown_exact(None)
    except BaseException:  # noqa: BLE001  the run is bad already, whatever else goes wrong in it
        return


def _no_text(*_: Any, **__: Any) -> str:
    return ""


def _move_temporary_files(config: Any, path: str) -> None:
    """pytest's ``tmp_path`` below another directory; versions without these fields make one of their own."""
    factory: Any = getattr(config, "_tmp_path_factory", None)
    if hasattr(factory, "_given_basetemp"):
        factory._given_basetemp = pathlib.Path(path)
        factory._basetemp = None
    cache: Any = getattr(config, "cache", None)
    if hasattr(cache, "_cachedir"):
        cache._cachedir = pathlib.Path(path + "-cache")
    older: Any = getattr(config, "_tmpdirhandler", None)
    if hasattr(older, "_basetemp"):
        older._basetemp = None


def _mark_hooks(plugin_class: Any, pytest: Any) -> None:
    """Applied at run time, because pytest is only importable inside the project's environment."""
    first = pytest.hookimpl(tryfirst=True)
    outer = pytest.hookimpl(hookwrapper=True, tryfirst=True)
    inner = pytest.hookimpl(hookwrapper=True, trylast=True)
    first(plugin_class.pytest_configure)
    for name in (
        "pytest_cmdline_parse",
        "pytest_load_initial_conftests",
        "pytest_make_collect_report",
        "pytest_runtest_protocol",
        "pytest_runtest_makereport",
        "pytest_collection_modifyitems",
    ):
        outer(getattr(plugin_class, name))
    for name in ("pytest_runtest_setup", "pytest_runtest_call", "pytest_runtest_teardown"):
        inner(getattr(plugin_class, name))
    first(plugin_class.pytest_internalerror)
    first(plugin_class.pytest_runtestloop)


def run_pytest(session: Session) -> int:
    """Runs pytest in this process; returns its exit code (4 when it cannot start)."""
    try:
        import pytest as module
    except ImportError as error:
        kind = "framework_missing" if (error.name or "") == "pytest" else "framework_broken"
        session.problem(kind, message_of(error))
        return 4
    pytest: Any = module
    session.stream.emit("framework", name="pytest", version=str(pytest.__version__))
    words = arguments(session, pytest)
    if not words:
        session.collected([])
        return 5
    filter_default_options(pytest)
    keep_rewritten_tests_fresh(session)
    _mark_hooks(WhimbrelPlugin, pytest)
    sys.argv = ["pytest", *words]
    return int(pytest.main(words, plugins=[WhimbrelPlugin(session, pytest)]))
