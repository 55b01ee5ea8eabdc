"""The host sandbox: hygiene without isolation, and honest about it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from whimbrel.sandbox.base.errors import SandboxUnavailable, ToolError
from whimbrel.sandbox.host import HostSandbox
from whimbrel.sandbox.protocol import ExecResult, Sandbox, SandboxLimits, SandboxSpec, run_to_end
from whimbrel.sandbox.workspace import Workspace


async def copy_of_a_repository(root: Path) -> Workspace:
    repository = root / "repository"
    repository.mkdir()
    (repository / "code.py").write_text("answer = 41\n")
    identity = "-c user.name=t -c user.email=t@example.org"
    script = f"git init -q && git add -A && git {identity} commit -qm start"
    process = await asyncio.create_subprocess_shell(script, cwd=repository)
    assert await process.wait() == 0
    return await Workspace.create(repository, root / "run")


async def started(root: Path, *, outer: bool = False, **spec: object) -> HostSandbox:
    workspace = await copy_of_a_repository(root)
    settings = {
        "workspace": workspace.root,
        "workdir": str(workspace.root),
        "state_dir": root / "state",
        "run_id": "host-test",
        **spec,
    }
    sandbox = HostSandbox(SandboxSpec(**settings), workspace, outer=outer)  # type: ignore[arg-type]
    await sandbox.start()
    return sandbox


async def sh(sandbox: Sandbox, script: str, **options: object) -> ExecResult:
    return await run_to_end(sandbox, ["/bin/sh", "-c", script], **{"timeout_s": 60, **options})  # type: ignore[arg-type]


async def test_it_says_plainly_that_nothing_is_isolated(tmp_path: Path) -> None:
    sandbox = await started(tmp_path)
    description = sandbox.describe()
    assert description.kind == "host"
    assert not description.isolated
    assert "not isolated" in description.warnings[0]
    assert any("network is open" in line for line in description.warnings)
    await sandbox.stop()


async def test_outer_names_the_surrounding_container_as_the_only_protection(tmp_path: Path) -> None:
    sandbox = await started(tmp_path, outer=True)
    description = sandbox.describe()
    assert (description.kind, description.isolated) == ("outer", False)
    assert "surrounding container is the only protection" in description.warnings[0]
    await sandbox.stop()


async def test_commands_run_on_the_copy_with_a_home_of_their_own(tmp_path: Path) -> None:
    sandbox = await started(tmp_path)
    result = await sh(sandbox, "pwd; cat code.py; touch ~/left; echo $HOME; echo $TMPDIR")
    where, code, home, temporary = result.text().split("\n")[:4]
    assert where == str(sandbox.spec.workspace)
    assert code == "answer = 41"
    assert Path(home) != Path.home()
    assert Path(home, "left").exists()
    assert Path(temporary).is_dir()
    await sandbox.stop()
    assert not Path(home).exists()
    assert not Path(temporary).exists()


async def test_keys_of_the_caller_do_not_reach_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = await started(tmp_path, env={"GIVEN": "yes"})
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    result = await sh(sandbox, "env", env={"MORE": "also"})
    lines = result.text().splitlines()
    assert "GIVEN=yes" in lines
    assert "MORE=also" in lines
    assert not any("sk-very-secret" in line or line.startswith("GIT_DIR") for line in lines)
    await sandbox.stop()


async def test_snapshot_and_restore_work_on_the_copy(tmp_path: Path) -> None:
    sandbox = await started(tmp_path)
    before = await sandbox.snapshot()
    await sandbox.write("code.py", b"answer = 42\n")
    assert await sandbox.snapshot() != before
    await sandbox.restore(before)
    assert await sandbox.read("code.py") == b"answer = 41\n"
    await sandbox.stop()


async def test_writing_outside_the_copy_is_refused_also_through_a_link(tmp_path: Path) -> None:
    sandbox = await started(tmp_path)
    await sh(sandbox, f"ln -s {tmp_path} out")
    for path in ("../elsewhere", str(tmp_path / "x"), "out/x"):
        with pytest.raises(ToolError, match="outside the workspace"):
            await sandbox.write(path, b"x")
    assert not (tmp_path / "x").exists()
    await sandbox.write("bin/tool", b"#!/bin/sh\necho ran\n", executable=True)
    assert (await run_to_end(sandbox, ["bin/tool"])).text() == "ran\n"
    await sandbox.stop()


async def test_stopping_ends_background_commands_and_helpers(tmp_path: Path) -> None:
    sandbox = await started(tmp_path)
    handle = await sandbox.run(["/bin/sh", "-c", "setsid sleep 300 & echo $!; wait"])
    pid = 0
    async for chunk in handle.output():
        pid = int(chunk)
        break
    channel = await sandbox.open_channel(["cat"])
    await channel.send(b"ping\n")
    assert await channel.receive_line() == b"ping\n"
    await sandbox.stop()
    await sandbox.stop()
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(SandboxUnavailable):
        await sh(sandbox, "true")


async def test_a_file_beyond_the_limit_is_cut_off(tmp_path: Path) -> None:
    sandbox = await started(tmp_path, limits=SandboxLimits(file_bytes=1 << 20))
    await sh(sandbox, "head -c 3000000 /dev/zero > big")
    assert (sandbox.spec.workspace / "big").stat().st_size == 1 << 20
    await sandbox.stop()


async def test_a_missing_working_directory_is_an_error_the_model_can_react_to(tmp_path: Path) -> None:
    sandbox = await started(tmp_path)
    with pytest.raises(ToolError, match="does not exist"):
        await sh(sandbox, "true", cwd="gone")
    await sandbox.stop()


async def test_another_path_than_the_copys_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="cannot show the copy at /elsewhere"):
        await started(tmp_path, workdir="/elsewhere")


async def test_commands_run_as_the_caller(tmp_path: Path) -> None:
    sandbox = await started(tmp_path)
    assert (await sh(sandbox, "id -u")).text().strip() == str(os.geteuid())
    warned = any("as root" in line for line in sandbox.describe().warnings)
    assert warned == (os.geteuid() == 0)
    await sandbox.stop()
