"""The files between turns: recorded as a patch in the session, put back when it is continued.

A state is ``base_tree`` plus a patch; both trees are hashes, so putting a state back is checked
by its content. Recorded states form a graph whose edges are patches: from any state that the
repository is in now (a patch may have been applied or taken back meanwhile) the wanted one is
reached by applying and reverting patches. Where the repository is in none of them, it has moved
on, and the patch of the wanted state is applied to what is there, if it fits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ...sandbox.base.errors import PatchConflict, WhimbrelError
from ...sandbox.workspace import Workspace
from .replay import Conversation, FileState
from .writer import SessionWriter

MEDIA = "text/x-patch"


@dataclass(frozen=True)
class Restored:
    """What was done to the working copy."""

    remarks: tuple[str, ...] = ()
    """For the model and the person: one line each."""
    moved_on: bool = False
    """The repository was changed outside the conversation."""


async def put_back(
    workspace: Workspace, conversation: Conversation, fetch: Callable[[str], bytes], *, wanted: str
) -> Restored:
    """Makes the copy hold the files as the conversation left them.

    Args:
        wanted: ``session``, or ``repository`` to go on with the files as they are.

    Raises:
        PatchConflict: they cannot be had: the repository moved on and conflicts, or the state was
            not kept.
    """
    state, base = conversation.files, workspace.base
    lost = _lost(conversation)
    if state is None:
        return Restored(lost)
    if state.tree == base.tree:
        return Restored(lost)
    if wanted == "repository":
        same = state.base_tree == base.tree
        remark = "the files are as the repository has them now, without earlier changes of this conversation"
        return Restored((*lost, remark), moved_on=not same)
    steps = route(conversation.states, base.tree, state.tree)
    if steps is not None:
        tree = base.tree
        for step, reverse in steps:
            tree = await workspace.patched(tree, _patch(step, fetch), reverse=reverse) or ""
            if not tree:
                break
        if tree == state.tree:
            await workspace.restore(tree)
            return Restored(lost)
    was, now = (state.base_commit or "no commit")[:12], (base.commit or "no commit")[:12]
    between = f"from {was} to {now}" if was != now else "though it is still at " + now
    moved = f"the repository was changed outside this conversation ({between})"
    if not state.diff and not state.problem:
        return Restored((*lost, f"{moved}; read files again before editing them"), moved_on=True)
    patch = _patch(state, fetch)
    tree = await workspace.patched(base.tree, patch)
    if tree is None:
        tree = await workspace.patched(base.tree, patch, three_way=True)
    if tree is None:
        if await workspace.patched(base.tree, patch, reverse=True) is not None:
            return Restored(
                (*lost, f"{moved}; the changes of this conversation are in it already"), moved_on=True
            )
        raise PatchConflict(
            f"{moved}, and the changes of this session do not fit any more",
            hint=f"--commit {state.base_commit or 'REV'} starts where it did, --files repository takes the"
            " files as they are",
        )
    await workspace.restore(tree)
    remark = f"{moved}; the changes of this conversation were applied on top: read files again before editing"
    return Restored((*lost, remark), moved_on=True)


def _lost(conversation: Conversation) -> tuple[str, ...]:
    """What is to be said about a turn whose process was killed."""
    if not conversation.unfinished:
        return ()
    state = conversation.files
    if state is not None and state.seq > conversation.turn:
        kept = "what it changed in files is kept as it was recorded last; later changes are gone"
        return (f"the turn before was killed: {kept}",)
    return ("the turn before was killed: what it changed in files is gone",)


def route(states: Iterable[FileState], start: str, goal: str) -> list[tuple[FileState, bool]] | None:
    """Patches that lead from one tree to another, each with whether it is reverted; shortest first."""
    edges: dict[str, list[tuple[str, FileState, bool]]] = {}
    for state in states:
        if not state.problem:
            edges.setdefault(state.base_tree, []).append((state.tree, state, False))
            edges.setdefault(state.tree, []).append((state.base_tree, state, True))
    queue: deque[tuple[str, list[tuple[FileState, bool]]]] = deque([(start, [])])
    seen = {start}
    while queue:
        here, steps = queue.popleft()
        if here == goal:
            return steps
        for there, state, reverse in edges.get(here, ()):
            if there not in seen:
                seen.add(there)
                queue.append((there, [*steps, (state, reverse)]))
    return None


async def record(
    workspace: Workspace,
    session: SessionWriter,
    states: Sequence[FileState] = (),
    *,
    cap_bytes: int,
    warn: Callable[[str], None],
) -> tuple[bytes, FileState]:
    """Stores the files as they are now as a ``files`` event; returns the patch from the base, and the state.

    ``states`` are those that the session holds already. One session keeps at most ``cap_bytes``
    of patches as stored: the oldest go first.
    """
    tree, base = await workspace.snapshot(), workspace.base
    patch = await workspace.diff(base.tree, tree)
    diff, stored, problem = "", 0, ""
    if patch:
        kept = await asyncio.to_thread(session.keep_exact, patch, MEDIA)
        if kept is None:
            problem = "the changes hold the value of a secret, so they are not kept in the session"
        elif kept[1] > cap_bytes:
            session.drop(kept[0])
            problem = f"the changes take more than the {cap_bytes >> 20} MiB that a session may keep"
        else:
            diff, stored = kept
    if problem:
        warn(f"a later turn cannot go on from these files: {problem}")
    event = {
        "base_commit": base.commit, "base_tree": base.tree, "tree": tree,
        "diff": diff, "stored": stored, "problem": problem,
    }  # fmt: skip
    seq = session.append("files", event)
    _bound(session, states, diff, stored, cap_bytes)
    return patch, FileState(seq, base.commit, base.tree, tree, diff, stored, problem)


class Checkpoints:
    """Records the files while a turn goes on, so that a killed process loses no more than its last moment.

    One recording at a time, in the background; what changes meanwhile is recorded next.
    """

    def __init__(
        self, workspace: Workspace, session: SessionWriter, states: Sequence[FileState], cap_bytes: int
    ) -> None:
        self.states = list(states)
        self._workspace = workspace
        self._session = session
        self._cap_bytes = cap_bytes
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._tree = workspace.base.tree
        self._last: FileState | None = None
        """What this turn recorded last."""

    def wanted(self) -> None:
        """Something may have changed."""
        if self._task is not None and not self._task.done():
            self._again = True
            return
        self._task = asyncio.get_running_loop().create_task(self._record())

    async def settled(self) -> None:
        """Waits for what is being recorded; what failed here is told when the turn's end is recorded."""
        if self._task is not None:
            with contextlib.suppress(WhimbrelError, OSError):
                await self._task

    async def final(self, warn: Callable[[str], None]) -> bytes:
        """Records the end of the turn; returns the patch."""
        self._again = False
        await self.settled()
        last, base = self._last, self._workspace.base
        tree = await self._workspace.snapshot()
        if last is not None and last.tree == tree and not last.problem:
            return await self._workspace.diff(base.tree, tree)
        return await self._one(warn)

    async def _record(self) -> None:
        while True:
            self._again = False
            tree = await self._workspace.snapshot()
            if tree != self._tree:
                self._tree = tree
                await self._one(lambda _: None)
            if not self._again:
                return

    async def _one(self, warn: Callable[[str], None]) -> bytes:
        patch, state = await record(
            self._workspace, self._session, self.states, cap_bytes=self._cap_bytes, warn=warn
        )
        self.states.append(state)
        self._last = state
        return patch


def kept_states(states: Iterable[FileState], fetch: Callable[[str], bytes]) -> tuple[FileState, ...]:
    """The states with a problem noted where the patch was removed to bound the store."""

    def checked(state: FileState) -> FileState:
        if state.diff and not state.problem:
            try:
                fetch(state.diff)
            except KeyError:
                return replace(state, problem="it is older than what the session may keep")
        return state

    return tuple(checked(state) for state in states)


def _patch(state: FileState, fetch: Callable[[str], bytes]) -> bytes:
    if state.problem:
        raise PatchConflict(
            f"the files of message {state.seq} cannot be had: {state.problem}",
            hint="--files repository takes the files as they are",
        )
    return fetch(state.diff) if state.diff else b""


def _bound(
    session: SessionWriter, states: Sequence[FileState], newest: str, stored: int, cap_bytes: int
) -> None:
    """Drops the oldest patches beyond the cap; the newest always stays."""
    sizes = {state.diff: state.stored for state in states if state.diff and not state.problem}
    sizes.pop(newest, None)
    total = stored + sum(sizes.values())
    for diff, size in sizes.items():
        if total <= cap_bytes:
            return
        session.drop(diff)
        total -= size
