"""What is known about endpoints, kept in the cache folder and given to models before a run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...engine.chat import ChatModel
from ...sandbox.base.errors import ConfigError
from ..paths import cache_dir

if TYPE_CHECKING:
    from ...engine.remote.profile import ProfileStore

LOOK_S = 5.0
"""For the server's own lists at the start of a run; without them the run begins all the same."""


def profile_store() -> ProfileStore:
    """Where profiles are kept."""
    from ...engine.remote.profile import ProfileStore

    return ProfileStore(cache_dir() / "endpoints")


async def get_ready(model: ChatModel) -> None:
    """Gives a remote model what earlier probes found and what its server lists now.

    The server's lists are read each time, because a restarted server may have another
    window. A server that cannot be asked is found out about by the first question, with
    all its patience and in one place.
    """
    if model.name == "embedded":
        return
    from ...engine.remote.client import RemoteModel
    from ...engine.remote.failures import RemoteError
    from ...engine.remote.listing import look

    if not isinstance(model, RemoteModel):
        return
    try:
        store = profile_store()
    except ConfigError:
        return  # no place for a cache is no reason not to run
    endpoint = model.endpoint
    known = store.load(endpoint.base_url, endpoint.model)
    try:
        async with asyncio.timeout(LOOK_S):
            seen = await look(model.transport)
    except (RemoteError, TimeoutError):
        seen = None
    if known is None:
        known = seen
    elif seen is not None and seen.context_window is not None:
        fresh = {"context_window": seen.facts["context_window"]}
        known = known.model_copy(update={"facts": {**known.facts, **fresh}})
    if known is not None:
        model.use_profile(known)
