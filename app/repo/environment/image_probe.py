"""Whether an interpreter of this machine starts inside a container image."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from ....sandbox.base.errors import SandboxUnavailable
from ....sandbox.protocol import SandboxSpec, run_to_end
from ....sandbox.select import Choice, make_sandbox, workspace_owner
from .model import ProjectEnvironment
from .verify import PROBE_TIMEOUT_S, interpreter_failure


async def why_not_in_image(environment: ProjectEnvironment, image: str | None) -> str:
    """Empty when the planned interpreter starts in the image (None: the default one), else the reason.

    A different C library or a missing shared library shows only by trying, in a container of
    its own that ends at once. Images made from this machine's own system are not tried.

    Raises:
        SandboxUnavailable: no daemon, or no such image.
    """
    from ....sandbox.images import usable_image

    info = await usable_image(image)
    if info.labels.get("whimbrel.suite", "") in _own_releases():
        return ""
    with tempfile.TemporaryDirectory(prefix="whimbrel-probe-") as name:
        place = Path(name)
        place.chmod(0o755)
        workspace = place / "empty"
        workspace.mkdir()
        owner = workspace_owner("docker")
        if owner is not None:
            os.chown(workspace, *owner)
        spec = SandboxSpec(
            workspace=workspace,
            workdir="/whimbrel-probe",
            state_dir=place,
            run_id=f"probe-{secrets.token_hex(4)}",
            mounts=tuple(mount for mount in environment.mounts if mount.source.exists()),
            image=info.reference,
        )
        sandbox = make_sandbox(Choice("docker", info.reference), spec, _NoSnapshots())
        await sandbox.start()
        try:
            argv = [environment.python, "-I", "-S", "-c", ""]
            result = await run_to_end(sandbox, argv, timeout_s=PROBE_TIMEOUT_S, label="probe")
            if result.exit_code == 0:
                return ""
            return interpreter_failure(environment, result, sandbox).message
        finally:
            await sandbox.stop()


class _NoSnapshots:
    """The probe's container has nothing worth recording."""

    async def snapshot(self) -> str:
        raise SandboxUnavailable("a probe keeps no snapshots")

    async def restore(self, snapshot: str) -> None:
        raise SandboxUnavailable(f"a probe keeps no snapshots, so not {snapshot} either")


def _own_releases() -> frozenset[str]:
    """The code name of this machine's Debian release, as a set that is empty elsewhere."""
    try:
        text = Path("/etc/os-release").read_text("utf-8", "replace")
    except OSError:
        return frozenset()
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if fields.get("ID", "").strip("\"'") != "debian":
        return frozenset()
    return frozenset((fields.get("VERSION_CODENAME", "").strip("\"'"),)) - {""}
