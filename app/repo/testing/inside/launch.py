"""Entry point inside the sandbox: ``python launch.py REQUEST.json [words for people...]``.

The request names the framework, what to run and where the report goes; see
``run_request``. Anything after the request is there for the reader of a process
list or an evidence row and is ignored.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sys
from typing import Any, Dict


def load_package() -> Any:
    """Loads this folder as the package ``whimbrel_inside`` without touching ``sys.path``."""
    name = "whimbrel_inside"
    if name in sys.modules:
        return sys.modules[name]
    folder = os.path.dirname(os.path.realpath(__file__))
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError("cannot load the helpers in %s" % folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def prepare_interpreter(root: str) -> None:
    """Makes the interpreter look as ``python -m FRAMEWORK`` in ``root`` would, minus bytecode caches.

    Compiled files of the repository are never read: one with the source's old
    modification time and size would run the code before the edit. Those of
    installed packages are read, as they are what makes start-up fast.
    """
    own = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") != own]
    if root not in sys.path:
        sys.path.insert(0, root)
    sys.dont_write_bytecode = True
    sys.pycache_prefix = None
    prefix = os.path.realpath(root).rstrip(os.sep) + os.sep

    # The source loader looks the function up in its own module, which not every version lists.
    namespace: Dict[str, Any] = importlib.util.cache_from_source.__globals__
    original = importlib.util.cache_from_source

    def cache_from_source(path: Any, *args: Any, **kwargs: Any) -> str:
        text = os.path.realpath(os.fspath(path))
        if text.startswith(prefix) and "site-packages" not in text:
            # The loader takes this as "no cache for this file".
            raise NotImplementedError("no bytecode cache for files of the repository")
        return original(path, *args, **kwargs)

    namespace["cache_from_source"] = cache_from_source


def run_request(request: Dict[str, Any], serve: Any = None) -> int:
    """Runs one request to its end and returns the exit code of the process.

    With ``serve`` (see session.Serve) the tests are collected and handed over instead of run.

    Keys: ``framework`` (pytest, unittest, or modules: where those named in ``args`` come from),
    ``root``, ``report``, ``scratch``
    (a directory of this run alone), ``args``, ``select`` (ids or null for all),
    ``coverage``, ``fail_fast``, ``collect_only``, ``test_timeout`` (seconds),
    ``seed``, ``import_roots`` (relative to root), ``survey`` (say where modules came from),
    ``observe`` (places whose values are wanted, see ``values.py``; may be missing).
    """
    load_package()
    from whimbrel_inside.limits import TestClock  # type: ignore[import-not-found,unused-ignore]
    from whimbrel_inside.lines import make_recorder  # type: ignore[import-not-found,unused-ignore]
    from whimbrel_inside.session import Session  # type: ignore[import-not-found,unused-ignore]
    from whimbrel_inside.stream import Places, Stream  # type: ignore[import-not-found,unused-ignore]
    from whimbrel_inside.values import make_observer  # type: ignore[import-not-found,unused-ignore]

    if request["framework"] == "modules":
        from whimbrel_inside.origin import locate_modules  # type: ignore[import-not-found,unused-ignore]

        Stream(request["report"]).emit("modules", found=locate_modules(request["args"], request["root"]))
        return 0
    os.makedirs(request["scratch"], exist_ok=True)
    places = Places(request["root"])
    stream = Stream(request["report"])
    clock = TestClock(float(request["test_timeout"]), request["report"] + ".stack")
    recorder = make_recorder(places) if request["coverage"] else None
    observer = make_observer(places, request.get("observe"))
    session = Session(request, stream, places, clock, recorder, observer)
    session.serve = serve
    random.seed(request["seed"])
    session.begin()
    code = 1
    try:
        if request["framework"] == "pytest":
            from whimbrel_inside.pytest_runs import run_pytest  # type: ignore[import-not-found,unused-ignore]

            code = run_pytest(session)
        else:
            from whimbrel_inside.unittest_runs import run_unittest  # type: ignore[import-not-found,unused-ignore]

            code = run_unittest(session)
    finally:
        session.end(code)
    return code


def main() -> int:
    with open(sys.argv[1], "rb") as file:
        request: Dict[str, Any] = json.loads(file.read().decode("utf-8"))
    os.chdir(request["root"])
    prepare_interpreter(request["root"])
    return run_request(request)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads the tests left behind must not keep the process; the report is already on disk.
    os._exit(code)
