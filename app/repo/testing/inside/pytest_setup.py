"""What pytest is told before it starts: its command line, its default options, no stale caches."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any, Dict, List

from .options import kept_options
from .session import Session


def filter_default_options(pytest: Any) -> None:
    """Default options of the project's ini file and of PYTEST_ADDOPTS go through ``kept_options``."""
    config_class: Any = pytest.Config if hasattr(pytest, "Config") else sys.modules["_pytest.config"].Config
    original = config_class.getini

    def getini(self: Any, name: str) -> Any:
        value = original(self, name)
        if name == "addopts" and isinstance(value, list):
            words: List[str] = [str(word) for word in value]  # type: ignore[misc,unused-ignore]
            return kept_options(words)
        return value

    if getattr(config_class.getini, "__name__", "") == "getini" and not hasattr(config_class, "_whimbrel"):
        config_class.getini = getini
        config_class._whimbrel = True
    extra = os.environ.get("PYTEST_ADDOPTS", "")
    if extra:
        os.environ["PYTEST_ADDOPTS"] = " ".join(
            shlex.quote(word) for word in kept_options(shlex.split(extra))
        )


def keep_rewritten_tests_fresh(session: Session) -> None:
    """pytest's own cache of rewritten test modules is not read for files of the repository."""
    rewrite: Any = sys.modules.get("_pytest.assertion.rewrite")
    original: Any = getattr(rewrite, "_read_pyc", None)
    if original is None:
        return

    def read_pyc(source: Any, *args: Any, **kwargs: Any) -> Any:
        if session.places.relative(str(source)) is not None:
            return None
        return original(source, *args, **kwargs)

    rewrite._read_pyc = read_pyc


def arguments(session: Session, pytest: Any) -> List[str]:
    """pytest's command line for this request; wanted files that do not exist are reported, not passed."""
    scratch = session.request["scratch"]
    # The cache plugin stays, because projects use its fixture, but writes outside of the repository.
    words = ["-o", "faulthandler_timeout=0", "-o", "cache_dir=%s" % os.path.join(scratch, "cache")]
    words.append("--basetemp=%s" % os.path.join(scratch, "tmp"))
    if session.collect_only:
        words.append("--collect-only")
    words.append("--continue-on-collection-errors")
    if session.serve is not None:
        # Capturing descriptors uses files, which forked children would share.
        words.append("--capture=sys")
    if not session.request["survey"]:
        # Nobody reads the text of a search run, and pytest's long tracebacks are costly to make.
        words.append("--tb=native")
        # Rewriting assertions only makes their messages better, and costs more than the tests.
        words.append("--assert=plain")
        # The full garbage collection with which these look for stray exceptions at the end is costly too.
        words.extend(["-p", "no:unraisableexception", "-p", "no:threadexception"])
    words.extend(kept_options(session.request["args"]))
    if session.request["select"] is not None:
        seen: Dict[str, bool] = {}
        for wish in session.request["select"]:
            path = wish.split("::", 1)[0]
            if path not in seen:
                seen[path] = os.path.exists(path)
        words.extend(path for path, exists in seen.items() if exists)
        if not any(seen.values()):
            return []
    return words
