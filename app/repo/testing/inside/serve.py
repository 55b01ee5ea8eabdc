"""Entry point inside the sandbox: ``python serve.py CONFIG.json``, see warm.py."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
    launch: Any = importlib.import_module("launch")
    package = launch.load_package()
    warm: Any = importlib.import_module(package.__name__ + ".warm")
    code = warm.main()
    # Threads of the project must not keep the process.
    os._exit(code)
