"""Runs tests in the sandbox, each time in a fresh process, and records the evidence."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ....sandbox.protocol import ExecResult, Sandbox, run_to_end
from ...evidence import EvidenceLedger, EvidenceRow
from .adapters import RunPlan, RunRequest, TestAdapter, plan_modules
from .command_report import read_command
from .endings import describe_end, lost_test
from .events import MAX_REPORT_BYTES, Gathered
from .place import Place, prepare_place
from .problems import Diagnosis, RunProblem
from .testrun import TestRun
from .toolchain import Ended
from .watching import run_unless_watching

if TYPE_CHECKING:
    from ....sandbox.workspace import Workspace
    from ..environment.model import ProjectEnvironment
    from .zygote import ZygoteResult

MAX_RESTARTS = 5
"""How often a run continues in a new process after a test took the process down."""
_OTHER_HASH_SEEDS = 2
_HASH_SEEDS = 2**32


class TestRunner:
    """Starts test processes one at a time; every run is a fresh process with its evidence row.

    Args:
        adapter: how tests are started and read.
        sandbox: a started sandbox.
        environment: interpreter, variables and import roots of the project.
        ledger: where rows go.
        workspace: the copy whose tree hash goes into each row.
        run_timeout_s: limit of a whole run.
        test_timeout_s: limit of one test.
        seed: for PYTHONHASHSEED, ``random`` and pytest-randomly.
    """

    __test__ = False

    def __init__(
        self,
        adapter: TestAdapter,
        sandbox: Sandbox,
        environment: ProjectEnvironment,
        ledger: EvidenceLedger,
        workspace: Workspace,
        *,
        run_timeout_s: float = 600,
        test_timeout_s: float = 60,
        seed: int = 0,
    ) -> None:
        self.adapter = adapter
        self.sandbox = sandbox
        self.environment = environment
        self.workspace = workspace
        self.run_timeout_s = run_timeout_s
        self.test_timeout_s = test_timeout_s
        self.seed = seed
        self.preload: tuple[str, ...] = ()
        """What the latest complete run imported from outside the repository."""
        self._ledger = ledger
        self._place: Place | None = None
        self._lock = asyncio.Lock()

    async def run(
        self,
        selection: Sequence[str] | None = None,
        *,
        purpose: str,
        coverage: bool = False,
        fail_fast: bool = False,
        timeout_s: float | None = None,
        observe: Sequence[Mapping[str, Any]] = (),
        hash_seed: int | None = None,
    ) -> TestRun:
        """Runs the selected tests (None: all) and gives the uniform report.

        A selected id may also be a file, folder or class. When a test takes the
        process down, the rest runs in a new process. ``observe``: places whose values
        the report shall hold (``inside/values.py`` says what a place is). ``hash_seed``:
        another PYTHONHASHSEED than ``seed``.

        Raises:
            EnvironmentBroken: the interpreter does not start.
            SandboxDied: the sandbox went away.
        """
        chosen = None if selection is None else tuple(dict.fromkeys(selection))
        async with self._lock:
            request = await self.request(chosen, coverage=coverage, fail_fast=fail_fast)
            request = replace(request, observe=tuple(observe))
            if hash_seed is not None:
                request = replace(request, hash_seed=hash_seed)
            return await self._run(request, purpose, timeout_s or self.run_timeout_s)

    async def collect(self) -> tuple[str, ...]:
        """The ids of all tests, in order, without running them; () for plain commands."""
        async with self._lock:
            request = replace(await self.request(None, coverage=False, fail_fast=False), collect_only=True)
            plan = self.adapter.plan(request)
            if not plan.streams:
                return ()
            run = await self._one_process(plan, request, "collect", self.run_timeout_s, Gathered())
            return run.gathered.collected or ()

    async def module_origins(self, names: Sequence[str]) -> dict[str, tuple[str, bool]]:
        """Where each module would be imported from, and whether that lies in the copy.

        An editable install of the original elsewhere shows itself here. The file is ""
        for a module that cannot be found, or the error in parentheses when its parent
        package does not import.
        """
        async with self._lock:
            request = await self.request(None, coverage=False, fail_fast=False)
            plan = plan_modules(_named(replace(request, selection=tuple(names))), names)
            gathered = Gathered()
            await self._one_process(plan, request, "module-origins", self.test_timeout_s, gathered)
            return gathered.modules

    async def flaky(self, ids: Sequence[str], *, times: int = 3) -> dict[str, tuple[str, ...]]:
        """Outcome of each id in each of ``times`` fresh processes; "missing" where it did not run."""
        outcomes: dict[str, list[str]] = {test_id: [] for test_id in ids}
        for _ in range(times):
            cases = (await self.run(ids, purpose="flaky-check")).report.by_id()
            for test_id, seen in outcomes.items():
                seen.append(cases[test_id].outcome.value if test_id in cases else "missing")
        return {test_id: tuple(seen) for test_id, seen in outcomes.items()}

    async def place(self) -> Place:
        """Where helpers and run files lie inside; prepared once."""
        if self._place is None:
            self._place = await prepare_place(self.sandbox, self.environment.python, self.workdir)
        return self._place

    @property
    def workdir(self) -> str:
        return self.sandbox.spec.workdir

    def move_to(self, sandbox: Sandbox) -> None:
        """Later runs happen in ``sandbox``, a started one that shows the same workspace."""
        self.sandbox = sandbox
        self._place = None

    async def close(self) -> None:
        """Removes our directory inside; the sandbox stays. Idempotent."""
        if self._place is not None:
            place, self._place = self._place, None
            await self.remove_inside([place.base])

    async def remove_inside(self, paths: Sequence[str]) -> None:
        """Removes files and directories of ours inside the sandbox."""
        await run_to_end(self.sandbox, ["rm", "-rf", *paths], timeout_s=60, label="clean-up")

    def record_fork(self, ids: Sequence[str], tree: str, result: ZygoteResult) -> EvidenceRow:
        """Row of a run in a forked helper: marked as not fresh."""
        description = self.sandbox.describe()
        return self._ledger.record(
            purpose="candidate",
            argv=(self.environment.python, "zygote", self.adapter.name, *ids),
            cwd=self.workdir,
            sandbox_kind=description.kind,
            image_digest=description.image_digest,
            tree=tree,
            fresh_process=False,
            exit_code=result.exit_code,
            timed_out=result.timed_out,
            duration_s=result.duration_s,
            outcomes={case.id: case.outcome.value for case in result.report.cases},
            log_sha256=hashlib.sha256(result.log.encode("utf-8", "replace")).hexdigest(),
        )

    @property
    def other_hash_seeds(self) -> tuple[int, ...]:
        """For runs that show whether an outcome hangs on the order of a set; none without Python."""
        if not self.environment.python:
            return ()
        return tuple((self.seed + step) % _HASH_SEEDS for step in range(1, 1 + _OTHER_HASH_SEEDS))

    def variables(self, scratch: str, hash_seed: int | None = None) -> dict[str, str]:
        """Environment of every test process; ``scratch`` is a directory of that run alone."""
        return {
            **self.environment.env,
            "CI": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": str(self.seed if hash_seed is None else hash_seed),
            # Also for interpreters the tests start: a stale .pyc with the source's old
            # time and size would run the code before the edit.
            "PYTHONPYCACHEPREFIX": f"{scratch}/pycache",
            "PYTHONUNBUFFERED": "1",
            "PY_COLORS": "0",
        }

    async def request(self, chosen: tuple[str, ...] | None, *, coverage: bool, fail_fast: bool) -> RunRequest:
        """What a process of this runner is asked, for the adapters and the fork server."""
        place = await self.place()
        return RunRequest(
            root=self.workdir,
            python=self.environment.python,
            inside=place.inside,
            base=place.base,
            name="",
            selection=chosen,
            coverage=coverage,
            fail_fast=fail_fast,
            test_timeout_s=self.test_timeout_s,
            seed=self.seed,
            hash_seed=self.seed,
            import_roots=tuple(self.environment.import_roots),
        )

    async def _run(
        self,
        request: RunRequest,
        purpose: str,
        timeout_s: float,
    ) -> TestRun:
        chosen, fail_fast = request.selection, request.fail_fast
        deadline = time.monotonic() + timeout_s
        gathered = Gathered()
        processes: list[_Process] = []
        order: tuple[str, ...] | None = None
        notes: list[str] = []
        equivalent = self.adapter.plan(_named(request)).equivalent
        while True:
            plan = self.adapter.plan(_named(request))
            left = max(1.0, deadline - time.monotonic())
            process = await self._one_process(plan, request, purpose, left, gathered)
            processes.append(process)
            if not plan.streams:
                break
            if order is None:
                order = gathered.collected
            if gathered.ended or process.result.timed_out or fail_fast or not process.lost:
                break
            rest = tuple(one for one in order or () if one not in gathered.cases)
            if not rest:
                break
            if len(processes) > MAX_RESTARTS:
                notes.append(f"{len(rest)} tests did not run: tests took down {len(processes)} processes")
                break
            notes.append(f"continued in a new process after {process.lost}")
            request = replace(request, selection=rest)
        run = self._conclude(plan, processes, gathered, order or (), notes, chosen)
        return replace(run, equivalent=equivalent)

    def _conclude(
        self,
        plan: RunPlan,
        processes: list[_Process],
        gathered: Gathered,
        order: tuple[str, ...],
        notes: list[str],
        chosen: tuple[str, ...] | None,
    ) -> TestRun:
        last = processes[-1].result
        if gathered.unmatched and chosen is not None:
            notes.append("no test matches " + ", ".join(gathered.unmatched[:5]))
        if plan.streams:
            complete = (gathered.ended or len(processes) > 1) and all(one in gathered.cases for one in order)
            diagnosis = gathered.diagnosis() or describe_end(last, gathered)
        else:
            complete = not last.timed_out
            diagnosis = processes[-1].diagnosis
        if gathered.preload:
            self.preload = gathered.preload
        return TestRun(
            report=gathered.report(complete=complete, notes=notes),
            result=last,
            row=processes[0].row,
            rows=tuple(process.row for process in processes),
            problem=None if diagnosis is None else diagnosis.problem,
            problem_detail="" if diagnosis is None else diagnosis.detail,
            collected=order,
            preload=gathered.preload,
            elsewhere=gathered.elsewhere,
            side_effects=tuple(sorted({path for process in processes for path in process.side_effects})),
        )

    async def _one_process(
        self, plan: RunPlan, request: RunRequest, purpose: str, timeout_s: float, gathered: Gathered
    ) -> _Process:
        """Starts one process, reads what it reported, records its row, removes its files."""
        place = await self.place()
        tree = await self.workspace.snapshot()
        scratch = plan.report_path.rsplit(".", 1)[0] + ".scratch"
        for path, data in plan.files.items():
            await self.sandbox.write(path, data)
        env = {**self.variables(scratch, request.hash_seed), **plan.env}
        description = self.sandbox.describe()
        watching = ""
        try:
            if plan.streams:
                result = await run_to_end(
                    self.sandbox, plan.argv, env=env, timeout_s=timeout_s, label=f"tests-{purpose}"
                )
            else:
                result, watching = await run_unless_watching(
                    self.sandbox, plan.argv, env=env, timeout_s=timeout_s, label=f"tests-{purpose}"
                )
            data = await self._read(plan.report_path)
            stack = await self._read(plan.report_path + ".stack") if plan.streams else b""
        finally:
            stem = plan.report_path.rsplit(".", 1)[0]
            names = [
                f"{stem}{end}" for end in (".json", ".report", ".report.stack", ".scratch", ".xml", ".mjs")
            ]
            await self.remove_inside(names)
        side_effects = await self._put_back(tree)
        gathered.new_process()
        lost, diagnosis = "", None
        if plan.streams:
            gathered.read(data)
            if not gathered.ended and gathered.running:
                lost = gathered.running
                case = lost_test(
                    lost,
                    exit_code=result.exit_code,
                    run_timed_out=result.timed_out,
                    duration_s=result.duration_s,
                    stack=stack,
                    log=result.text(),
                    root=self.workdir,
                )
                gathered.add(case)
        else:
            if plan.read is not None:
                root, selection = self.workspace.root, request.selection
                diagnosis = plan.read(Ended(gathered, result, data, self.workdir, root, selection))
            else:
                diagnosis = read_command(gathered, result, data, self.workdir, place.base)
            if watching:
                diagnosis = Diagnosis(RunProblem.WATCHING, watching)
        row = self._ledger.record(
            purpose=purpose,
            argv=tuple(plan.argv),
            cwd=self.workdir,
            sandbox_kind=description.kind,
            image_digest=description.image_digest,
            tree=tree,
            fresh_process=True,
            exit_code=result.exit_code,
            timed_out=result.timed_out,
            duration_s=result.duration_s,
            outcomes=dict(gathered.latest),
            log_sha256=result.log_sha256,
            log_path=str(result.log_path),
        )
        return _Process(
            result=result,
            row=row,
            lost=lost,
            gathered=gathered,
            diagnosis=diagnosis,
            side_effects=side_effects,
        )

    async def _put_back(self, tree: str) -> tuple[str, ...]:
        """Undoes what the tests changed in the repository: a patch must hold no trace of them."""
        now = await self.workspace.snapshot()
        if now == tree:
            return ()
        changed = tuple(change.path for change in await self.workspace.changed_files(tree, now))
        await self.workspace.restore(tree)
        return changed

    async def _read(self, path: str) -> bytes:
        try:
            return (await self.sandbox.read(path))[:MAX_REPORT_BYTES]
        except FileNotFoundError:
            # The process ended before it wrote anything; the caller sees that from the exit code.
            return b""


@dataclass(frozen=True)
class _Process:
    result: ExecResult
    row: EvidenceRow
    lost: str
    """The test that took the process down, or empty."""
    gathered: Gathered
    diagnosis: Diagnosis | None
    side_effects: tuple[str, ...] = ()


def _named(request: RunRequest) -> RunRequest:
    """Same request, same file names: equal runs have equal argv, which is how the ledger finds them."""
    text = repr(replace(request, name=""))
    return replace(request, name=hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12])
