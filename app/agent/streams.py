"""A small helper for streams that must be closed, however they are left."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

_T = TypeVar("_T")


@asynccontextmanager
async def closing(stream: AsyncIterator[_T]) -> AsyncGenerator[AsyncIterator[_T]]:
    """Closes an async generator at once when its consumer stops early (a cut, a cancel).

    Without it the connection would stay open until the garbage collector finds it.
    """
    try:
        yield stream
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
