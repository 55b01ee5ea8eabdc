"""What it means when a test process did not come to its natural end."""

from __future__ import annotations

import signal

from ....sandbox.base.results import ExecResult
from .events import Gathered, watchdog_frames
from .problems import Diagnosis, RunProblem
from .report import Outcome, TestCase
from .textclean import clean_text


def how_it_ended(exit_code: int) -> str:
    """``signal SIGSEGV`` or ``exit code 3``."""
    if exit_code > 128:
        try:
            return f"signal {signal.Signals(exit_code - 128).name}"
        except ValueError:
            # Not a signal number: a program's own large exit code.
            return f"exit code {exit_code}"
    return f"exit code {exit_code}"


def lost_test(
    test_id: str,
    *,
    exit_code: int,
    run_timed_out: bool,
    duration_s: float,
    stack: bytes,
    log: str,
    root: str,
) -> TestCase:
    """The outcome of the test that ran when the process went away.

    ``stack`` is what the watchdog or the crash handler inside wrote, ``log`` what the
    process printed.
    """
    frames = watchdog_frames(stack, root)
    if run_timed_out:
        message = "still running when the limit of the whole run ended it"
        outcome, exception = Outcome.TIMEOUT, "RunTimeLimit"
    elif b"Timeout (" in stack:
        message = "ran longer than the limit of one test and could not be interrupted"
        outcome, exception = Outcome.TIMEOUT, "TestTimeLimit"
    else:
        message = f"the test process ended with {how_it_ended(exit_code)} while this test ran"
        outcome, exception = Outcome.CRASHED, "ProcessDied"
    path = test_id.split("::", 1)[0]
    return TestCase(
        id=test_id,
        outcome=outcome,
        duration_s=duration_s,
        exception=exception,
        message=message,
        frames=frames,
        output=clean_text(log[-4000:]),
        path=path if path.endswith(".py") else "",
    )


def describe_end(result: ExecResult, gathered: Gathered) -> Diagnosis | None:
    """The problem of a run whose events name none, or None when all went its way."""
    if result.timed_out:
        where = gathered.collecting or gathered.running
        return Diagnosis(
            RunProblem.TIMED_OUT, f"the run's time limit ended it ({where or 'before the first test'})"
        )
    if not gathered.ended and not gathered.cases:
        lines = result.text().strip().splitlines()
        last = lines[-1] if lines else "no output"
        where = f" while collecting {gathered.collecting}" if gathered.collecting else ""
        return Diagnosis(
            RunProblem.CRASHED, f"the test process ended with {how_it_ended(result.exit_code)}{where}: {last}"
        )
    if not gathered.cases and not gathered.collection_errors:
        missing = ", ".join(gathered.unmatched[:5])
        return Diagnosis(
            RunProblem.NO_TESTS, f"no test matches {missing}" if missing else "no tests were found"
        )
    return None
