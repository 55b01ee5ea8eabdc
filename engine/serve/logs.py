"""One JSON object a line on standard error. Neither prompts nor answers nor keys ever get here."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from ...sandbox.base.tokens import mask


def say(event: str, *, level: str = "info", **values: Any) -> None:
    """Writes a line; a log that nobody reads any more stops nothing."""
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "level": level, "event": event}
    line |= {key: value for key, value in values.items() if value not in (None, "")}
    with suppress(OSError, ValueError):
        sys.stderr.write(json.dumps(line, ensure_ascii=True, default=str) + "\n")
        sys.stderr.flush()


class LibraryHandler(logging.Handler):
    """What uvicorn says, from warnings on; its texts hold no requests, its tracebacks might."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        text = " ".join(record.getMessage().split())[:300]
        say("library", level=record.levelname.lower(), message=mask(text), exception=kind)


def take_library_logs() -> None:
    logger = logging.getLogger("uvicorn")
    logger.handlers = [LibraryHandler()]
    logger.propagate = False
    logger.setLevel(logging.WARNING)
