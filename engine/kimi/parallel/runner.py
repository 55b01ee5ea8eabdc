"""A runner whose model lies on several processes: this one holds the first part, workers the others."""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Any

from ....sandbox.base.errors import ModelError
from ....sandbox.base.process import base_environment
from ....sandbox.base.spawn import spawn
from ..blocks.step import Trace
from ..config import load_config
from ..experts import ExpertSource
from ..load import LoadOptions, Part, cache_pages, load_runner
from ..protocol import Chunk, SequenceState, Snapshot
from ..runner import KimiRunner
from ..safetensors import Array
from .layout import Layout
from .mesh import Mesh, MeshBroken, connections
from .share import Share
from .worker import Orders

_LOAD_S = 3600.0
_LAST_WORDS_S = 5.0
_END_S = 10.0


class _Mirrored:
    """A sequence or a snapshot here, and its number on the other processes."""

    def __init__(self, runner: ParallelRunner, number: int, local: Any) -> None:
        self._runner, self.number, self.local = runner, number, local
        self._open = True

    @property
    def length(self) -> int:
        return self.local.length

    @property
    def pages(self) -> int:
        return self.local.pages

    @property
    def nbytes(self) -> int:
        """Of this process's part of a snapshot."""
        return self.local.nbytes

    def fork(self) -> SequenceState:
        return self._runner.mirror(self.local.fork(), "fork", self.number)

    def snapshot(self) -> Snapshot:
        return self._runner.mirror(self.local.snapshot(), "snapshot", self.number)

    def rewind(self, snapshot: Snapshot) -> None:
        saved = self._runner.own(snapshot, "snapshot")
        self.local.rewind(saved.local)
        self._runner.tell("rewind", self.number, saved.number)

    def close(self) -> None:
        if self._open:
            self._open = False
            self.local.close()
            self._runner.tell("close", self.number)


class ParallelRunner:
    """See `engine.kimi.protocol.Runner`. One thread at a time; `close` ends the other processes.

    A step that fails on one process only (a damaged expert, a process that was killed) ends the group:
    that step and all later ones raise ModelError.
    """

    def __init__(self, local: KimiRunner, layout: Layout, mesh: Mesh, controls: Sequence[Connection]) -> None:
        self.local, self.layout = local, layout
        self.config = local.config
        self.warnings = local.warnings
        self._mesh, self._controls = mesh, list(controls)
        self._next = 0
        self._broken = ""
        self._processes: list[Popen[bytes]] = []
        self._result_from = (layout.pipeline - 1) * layout.tensor

    @classmethod
    def load(cls, folder: Path, options: LoadOptions, layout: Layout) -> ParallelRunner:
        """Starts the other processes and loads the model on all at once.

        Raises:
            ConfigError: the model cannot be laid out like this, or an option does not fit.
            ModelError: the checkpoint cannot be used, or a process could not be started.
        """
        config = load_config(folder, options.sets)
        layout.check(config)
        parts = [layout.config(config, rank) for rank in range(layout.size)]
        pages = cache_pages(config, parts, options)
        rows = connections(layout.size)
        mesh = Mesh(0, rows[0])
        processes: list[Popen[bytes]] = []
        controls: list[Connection] = []
        try:
            for rank in range(1, layout.size):
                process, control = _start(rows[rank], layout.size)
                processes.append(process)
                controls.append(control)
                control.send(Orders(folder.absolute(), options, layout, rank, pages))
            group = Share(layout, mesh)
            local = load_runner(folder, options, Part(layout, 0, group, pages))
            runner = cls(local, layout, mesh, controls)
            runner._processes = processes
            for rank, control in enumerate(controls, start=1):
                _await_ready(rank, control)
        except BaseException:
            _end(processes, controls, mesh)
            raise
        weakref.finalize(runner, _end, processes, controls, mesh)
        return runner

    # ------------------------------------------------------------ what a runner has

    @property
    def vocab_size(self) -> int:
        return self.local.vocab_size

    @property
    def hidden_size(self) -> int:
        return self.local.hidden_size

    @property
    def max_context(self) -> int:
        return self.local.max_context

    @property
    def pages_total(self) -> int:
        return self.local.pages_total

    @property
    def pages_free(self) -> int:
        return self.local.pages_free

    @property
    def source(self) -> ExpertSource:
        """Where this process's experts come from."""
        return self.local.source

    @property
    def state_bytes(self) -> int:
        """Fixed-size state of one sequence on this process."""
        return self.local.state_bytes

    def expert_use(self) -> dict[int, Array]:
        """As of the first process: of the layers of its stage."""
        return self.local.expert_use()

    def new(self) -> SequenceState:
        return self.mirror(self.local.new(), "new")

    def restore(self, snapshot: Snapshot) -> SequenceState:
        saved = self.own(snapshot, "snapshot")
        return self.mirror(self.local.restore(saved.local), "restore", saved.number)

    def forward(self, chunks: Sequence[Chunk], *, trace: Trace | None = None) -> list[Array | None]:
        """As `Runner.forward`; `trace` sees the layers of this process."""
        if not chunks:
            return []
        self._check()
        sequences = [self.own(chunk.sequence, "sequence") for chunk in chunks]
        ours = [
            Chunk(sequence.local, chunk.tokens, chunk.want, chunk.embeddings)
            for sequence, chunk in zip(sequences, chunks, strict=True)
        ]
        # Whatever can be wrong with the step is found here, before another process hears of it.
        spans = self.local.prepare(ours)
        self.tell(
            "forward",
            [
                (sequence.number, chunk.tokens, chunk.want, chunk.embeddings)
                for sequence, chunk in zip(sequences, chunks, strict=True)
            ],
        )
        try:
            results = self.local.run(ours, spans, trace=trace)
            if self._result_from:
                results = [
                    None if chunk.want == "none" else self._mesh.receive(self._result_from)
                    for chunk in chunks
                ]
        except MeshBroken as error:
            raise self._fail(error) from error
        except BaseException as error:
            # The others wait for a part of a sum that never comes.
            self._fail(error)
            raise
        return results

    @property
    def trouble(self) -> str:
        """Why no step can be made any more, in one line; empty: it can. May be asked by any thread."""
        if not self._broken:
            gone = next((rank for rank, each in enumerate(self._processes, 1) if each.poll() is not None), 0)
            return f"process {gone} of {self.layout.size} of the model is gone" if gone else ""
        return f"the model's processes have ended: {self._broken}"

    def close(self) -> None:
        """Ends the other processes and closes the files."""
        if not self._broken:
            self._broken = "the model was closed"
        for control in self._controls:
            with contextlib.suppress(OSError):
                control.send(("end",))
        self.local.close()
        _end(self._processes, self._controls, self._mesh)

    # ------------------------------------------------------------ the other processes

    def mirror(self, local: Any, operation: str, *given: int) -> Any:
        """What was done here, under a number, on every other process."""
        number, self._next = self._next, self._next + 1
        self.tell(operation, *given, number)
        return _Mirrored(self, number, local)

    def own(self, mirrored: Any, what: str) -> _Mirrored:
        """Raises ModelError for a sequence or snapshot of another model."""
        if not isinstance(mirrored, _Mirrored) or mirrored._runner is not self:  # pyright: ignore[reportPrivateUsage]
            raise ModelError(f"the {what} is of another model")
        return mirrored

    def tell(self, *message: Any) -> None:
        """The same message to every other process; nothing once the group is gone."""
        if self._broken:
            return
        for control in self._controls:
            try:
                control.send(message)
            except OSError as error:
                raise self._fail(error) from error

    def _check(self) -> None:
        if self._broken:
            raise ModelError(self.trouble, hint="load it again")

    def _fail(self, error: BaseException) -> ModelError:
        """The group is over: asks the others for their last words, and ends them."""
        if not self._broken:
            # Who waits for a part of a sum, or for the next message, ends by this.
            self._mesh.close()
            for control in self._controls:
                with contextlib.suppress(OSError):
                    control.send(("end",))
            said = [_last_words(control) for control in self._controls]
            reason = next((words for words in said if words), "") or str(error)
            self._broken = reason
            _end(self._processes, self._controls, self._mesh)
        return ModelError(f"a process of the model failed: {self._broken}", hint="load the model again")


def _start(links: Sequence[Connection | None], size: int) -> tuple[Popen[bytes], Connection]:
    """A process with its ends of the connections, which are closed here."""
    ours, theirs = Pipe()
    own = [theirs, *(link for link in links if link is not None)]
    numbers = [str(theirs.fileno()), *("-" if link is None else str(link.fileno()) for link in links)]
    threads = str(max(1, len(os.sched_getaffinity(0)) // size))
    kept = {name: os.environ[name] for name in ("WHIMBREL_KERNELS",) if name in os.environ}
    limits = dict.fromkeys(("WHIMBREL_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), threads)
    try:
        process, _ = spawn(
            [sys.executable, "-P", "-m", "whimbrel.engine.kimi.parallel.worker", *numbers],
            cwd="/",
            env=base_environment({**limits, **kept}),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=None,
            user=None,
            group=None,
            rlimits=None,
            pass_fds=[link.fileno() for link in own],
        )
    finally:
        for link in own:
            link.close()
    return process, ours


def _await_ready(rank: int, control: Connection) -> None:
    try:
        if not control.poll(_LOAD_S):
            raise ModelError(f"process {rank} of the model is not ready after {_LOAD_S:.0f} s")
        kind, said = control.recv()
    except (EOFError, OSError) as error:
        raise ModelError(f"process {rank} of the model ended while it loaded") from error
    if kind != "ready":
        raise ModelError(f"process {rank} of the model: {said}")


def _last_words(control: Connection) -> str:
    try:
        if control.poll(_LAST_WORDS_S):
            kind, said = control.recv()
            return str(said) if kind == "failed" else ""
    except (EOFError, OSError):
        pass
    return ""


def _end(processes: Sequence[Popen[bytes]], controls: Sequence[Connection], mesh: Mesh) -> None:
    """Closes every connection, which ends the processes, and waits for them; then ends what is left."""
    mesh.close()
    for control in controls:
        control.close()
    for process in processes:
        try:
            process.wait(_END_S)
        except TimeoutExpired:
            process.kill()
            process.wait(_END_S)


def load_laid_out(folder: Path, options: LoadOptions, layout: Layout) -> KimiRunner | ParallelRunner:
    """The model on as many processes as the layout says, this one among them.

    Raises:
        ConfigError, ModelError: see `load_runner` and `ParallelRunner.load`.
    """
    if layout.size == 1:
        return load_runner(folder, options)
    return ParallelRunner.load(folder, options, layout)
