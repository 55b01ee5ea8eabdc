"""The session a turn goes into: a new one, one that is continued, or a fork."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ...sandbox.base.errors import UsageError
from ..sessions import SessionStore, SessionWriter
from ..sessions.files import kept_states
from ..sessions.keeping import check_seq, fork
from ..sessions.replay import Conversation, replay
from ..sessions.store import SessionInfo
from .options import TalkOptions, split_fork


@dataclass
class Chosen:
    """Which conversation goes on, read before anything is started or locked."""

    store: SessionStore
    info: SessionInfo | None
    upto: int | None
    """Only what was said up to here counts (fork)."""
    conversation: Conversation
    writer: SessionWriter | None = None
    """Of a session that is resumed: taken before it is read, so that nobody adds to it meanwhile."""

    @property
    def model(self) -> str:
        return self.conversation.model or (self.info.model if self.info else "")


class TalkRecording:
    """Holds the store and the writer; ``end`` records the verdict."""

    def __init__(self, store: SessionStore, session: SessionWriter) -> None:
        self._store = store
        self.session = session

    def end(self, status: str, message: str) -> None:
        """Records how the turn ended and gives the session free; idempotent."""
        self.session.append("run_ended", {"status": status, "message": message})
        self.session.close(status)
        self._store.close()


def choose(options: TalkOptions, repository: Path, warn: Callable[[str], None]) -> Chosen:
    """Finds the conversation to go on with.

    Raises:
        UsageError: no such session or message, one of another repository, one that another
            process writes, or two ways at once.
    """
    ways = [options.resume is not None, options.latest, options.fork is not None]
    if sum(ways) > 1:
        raise UsageError("give one of --continue, --resume and --fork")
    store = SessionStore.open(notice=warn)
    if not any(ways):
        return Chosen(store, None, None, Conversation())
    upto: int | None = None
    if options.latest:
        info = store.latest(str(repository))
    elif options.resume is not None:
        info = store.find(options.resume)
    else:
        name, seq = split_fork(options.fork or "")
        info = store.find(name)
        upto = check_seq(store, info, seq)
    if info.repository != str(repository):
        raise UsageError(
            f"session {info.id} belongs to {info.repository}", hint=f"give --repo {info.repository}"
        )
    writer = store.reopen(info.id, on_problem=warn) if upto is None else None
    conversation = replay(store.events(info.id), upto=upto)
    for seq in conversation.damaged[:3]:
        warn(f"message {seq} of session {info.id} is damaged and is left out")
    states = kept_states(conversation.states, lambda handle: store.blob(handle)[0])
    files = next((each for each in states if conversation.files and each.seq == conversation.files.seq), None)
    return Chosen(store, info, upto, replace(conversation, files=files, states=states), writer)


def begin(
    chosen: Chosen, *, title: str, repository: Path, model: str, warn: Callable[[str], None], new_id: str = ""
) -> TalkRecording:
    """The writer of the chosen session; a fork is made now."""
    store, info = chosen.store, chosen.info
    if info is None:
        session = store.create(
            title=title, repository=str(repository), model=model, on_problem=warn, session_id=new_id
        )
    elif chosen.writer is not None:
        session = chosen.writer
    else:
        session = fork(store, info.id, chosen.upto, on_problem=warn)
    return TalkRecording(store, session)
