"""Copies of closed sessions elsewhere: they come whole or later, and never cost a run anything."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from whimbrel.app.sessions import SessionStore
from whimbrel.app.sessions.importing import import_session
from whimbrel.app.sessions.mirror import check_address, copy_after_run, enqueue, sync, waiting
from whimbrel.engine.chat import user
from whimbrel.sandbox.base.errors import ConfigError

fsspec = pytest.importorskip("fsspec")


def closed(store: SessionStore) -> str:
    writer = store.create(title="t", repository="/r", model="m")
    writer.append("message", user("hello").model_dump())
    writer.keep(b"output" * 50, "text/plain")
    writer.close("answered")
    return writer.id


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_copy_is_the_export_and_can_be_taken_in_again(tmp_path: Path, kind: str) -> None:
    address = f"file://{tmp_path}/copies/a" if kind == "file" else "memory://copies/a"
    store = SessionStore.open(tmp_path / "state")
    session = closed(store)
    assert copy_after_run(lambda: SessionStore.open(tmp_path / "state"), address, session) == ""
    assert waiting(store) == []
    filesystem, root = fsspec.core.url_to_fs(address)
    lines = filesystem.cat_file(f"{root}/{session}.jsonl").splitlines(keepends=True)
    assert import_session(SessionStore.open(tmp_path / "other"), lines).id == session
    assert len(filesystem.ls(root)) == 1, "nothing half-made lies beside it"


def test_a_place_that_fails_leaves_the_session_in_the_queue_until_it_works(tmp_path: Path) -> None:
    (tmp_path / "copies").write_text("a file in the way")
    address = f"file://{tmp_path}/copies/a"
    store = SessionStore.open(tmp_path / "state")
    session = closed(store)
    told = copy_after_run(lambda: SessionStore.open(tmp_path / "state"), address, session)
    assert "was not copied" in told and "whimbrel session sync" in told
    assert [each.problem != "" for each in sync(store, address)] == [True]
    assert [(name, attempts) for name, attempts, _ in waiting(store)] == [(session, 2)]
    (tmp_path / "copies").unlink()
    assert [each.problem for each in sync(store, address)] == [""]
    assert waiting(store) == [] and (tmp_path / f"copies/a/{session}.jsonl").is_file()


def test_a_place_that_never_answers_does_not_hold_the_run_up(tmp_path: Path) -> None:
    release = threading.Event()

    def stuck() -> SessionStore:
        release.wait(60)
        return SessionStore.open(tmp_path)

    try:
        assert "no answer" in copy_after_run(stuck, "memory://x", "s", patience_s=0.05)
    finally:
        release.set()


def test_a_session_that_is_being_written_waits_and_one_that_was_deleted_is_forgotten(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path / "state")
    writer = store.create(title="t", repository="/r", model="m")
    writer.append("notice", {})
    enqueue(store, writer.id)
    enqueue(store, "20260101-000000-abcdef")
    sync(store, f"file://{tmp_path}/copies")
    assert [name for name, _, _ in waiting(store)] == [writer.id]
    assert not list((tmp_path / "copies").glob("*")) if (tmp_path / "copies").exists() else True


@pytest.mark.parametrize(
    "address", ["s3://key:secret@bucket/x", "nonsense", "/srv/x", "no-such-kind://x/y", "https://user@host/x"]
)
def test_addresses_with_credentials_or_of_no_known_kind_are_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_address(address)
        sync(SessionStore.open(tmp_path), address)
    assert "secret" not in raised.value.one_line()


def test_a_bucket_of_a_real_s3_server_gets_the_copy_with_credentials_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test-secret-key")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        filesystem, _ = fsspec.core.url_to_fs("s3://conversations")
        filesystem.mkdir("conversations")
        store = SessionStore.open(tmp_path)
        session = closed(store)
        enqueue(store, session)
        assert [each.problem for each in sync(store, "s3://conversations/team/a")] == [""]
        lines = filesystem.cat_file(f"conversations/team/a/{session}.jsonl").splitlines(keepends=True)
        assert import_session(SessionStore.open(tmp_path / "other"), lines).id == session
        assert told_of(store, session, "s3://no-such-bucket/x"), "said, and left in the queue"
        assert [name for name, _, _ in waiting(store)] == [session]
    finally:
        server.stop()


def told_of(store: SessionStore, session: str, address: str) -> str:
    enqueue(store, session)
    (only,) = sync(store, address)
    return only.problem
