"""The one exception tree of the product.

Each leaf knows the process exit code, the machine-readable status written to
``result.json``, and whether the model may see the message (as a tool error it
can react to) or whether it ends the run.

Messages follow one form: what happened, what it means; ``hint`` says what to do next.
Both are single lines and never hold secrets.
"""

from __future__ import annotations

from typing import ClassVar


class WhimbrelError(Exception):
    """Root of everything Whimbrel raises on purpose.

    Args:
        message: one line: what happened and what it means.
        hint: one line: what the person can do next, or empty.
    """

    exit_code: ClassVar[int] = 1
    status: ClassVar[str] = "internal_error"
    model_sees: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def one_line(self) -> str:
        """The sentence a person sees, with the next step when there is one."""
        text = " ".join(self.message.split())
        hint = " ".join(self.hint.split())
        return f"{text} ({hint})" if hint else text


class UsageError(WhimbrelError):
    """The command line or an argument is wrong."""

    exit_code = 2
    status = "usage"


class NothingToFix(WhimbrelError):
    """The tests pass and no issue text was given."""

    exit_code = 3
    status = "nothing_to_fix"


class NotFixed(WhimbrelError):
    """The run ended without a verified patch."""

    exit_code = 4
    status = "not_fixed"


class PermissionDenied(WhimbrelError):
    """An action was denied by permissions or by policy."""

    exit_code = 5
    status = "denied"
    model_sees = True


class BudgetExceeded(WhimbrelError):
    """A time, step, token or cost limit ended the run."""

    exit_code = 6
    status = "budget"


class LoopDetected(WhimbrelError):
    """The model repeated itself without progress."""

    exit_code = 7
    status = "loop"


class ModelError(WhimbrelError):
    """The model or its provider failed in a way retries do not cure."""

    exit_code = 8
    status = "model_error"


class SandboxUnavailable(WhimbrelError):
    """The requested sandbox cannot start."""

    exit_code = 9
    status = "sandbox_unavailable"


class SandboxDied(SandboxUnavailable):
    """The sandbox was there and went away mid-run (killed container, lost daemon)."""

    status = "sandbox_died"


class ConfigError(WhimbrelError):
    """A configuration file, variable or key is wrong."""

    exit_code = 10
    status = "configuration"


class EnvironmentBroken(WhimbrelError):
    """The project's tests cannot run here for reasons outside the code under repair."""

    exit_code = 11
    status = "environment_broken"


class Cancelled(WhimbrelError):
    """The person interrupted the run (SIGINT)."""

    exit_code = 130
    status = "cancelled"


class Terminated(WhimbrelError):
    """The run was told to end (SIGTERM)."""

    exit_code = 143
    status = "terminated"


class ToolError(WhimbrelError):
    """A tool could not do what it was asked; the model sees the message and may try again."""

    status = "tool_error"
    model_sees = True


class RepositoryError(WhimbrelError):
    """The repository is in a state that cannot be worked on (bare, empty, unreadable...)."""

    exit_code = 2
    status = "repository"


class PatchConflict(WhimbrelError):
    """A patch does not apply because the tree has moved on."""

    exit_code = 4
    status = "patch_conflict"
