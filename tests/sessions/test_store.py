"""What a person can rely on when a run is recorded."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from whimbrel.app.evidence import EvidenceLedger
from whimbrel.app.sessions import SessionStore, SessionWriter
from whimbrel.sandbox.base.errors import ConfigError, NotFixed, UsageError


def make(store: SessionStore, **values: str) -> SessionWriter:
    head = {"title": "a bug", "repository": "/src/shop", "model": "embedded"} | values
    return store.create(**head)


def test_events_come_back_in_order_with_their_parents(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path)
    writer = make(store)
    assert [writer.append("notice", {"n": n}) for n in range(3)] == [1, 2, 3]
    writer.append("notice", {"n": "branch"}, parent_seq=1)
    events = list(store.events(writer.id))
    assert [(event.seq, event.parent_seq, event.payload["n"]) for event in events] == [
        (1, None, 0),
        (2, 1, 1),
        (3, 2, 2),
        (4, 1, "branch"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "two\nlines\r\nand \x00\x1b[31m controls \x85\u2028",
        "cut emoji \ud83d",
        "\udc80 surrogate-escaped byte",
        "笔记 é",
    ],
)
def test_payloads_with_newlines_controls_and_lone_surrogates_survive(tmp_path: Path, text: str) -> None:
    store = SessionStore.open(tmp_path)
    writer = make(store)
    writer.append("message", {"text": text, text: 1})
    writer.close("ended")
    again = SessionStore.open(tmp_path)
    assert next(iter(again.events(writer.id))).payload == {"text": text, text: 1}


def test_a_session_without_events_leaves_nothing_behind(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path)
    make(store).close("ended")
    assert store.sessions() == []
    assert sorted(path.name for path in store.directory.glob("*.lock")) == ["sessions.lock"]


def test_a_second_writer_of_a_session_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path)
    writer = make(store)
    writer.append("notice", {})
    other = SessionStore.open(tmp_path)
    with pytest.raises(UsageError, match="being written by another process"):
        other.reopen(writer.id)
    writer.close("not_fixed")
    continued = other.reopen(writer.id)
    assert continued.append("notice", {}) == 2
    continued.close("fixed")
    assert store.find(writer.id).status == "fixed"


def test_a_reader_in_another_connection_follows_a_live_session(tmp_path: Path) -> None:
    writer = make(SessionStore.open(tmp_path))
    reader = SessionStore.open(tmp_path)
    writer.append("notice", {"n": 1})
    assert [event.seq for event in reader.events(writer.id)] == [1]
    writer.append("notice", {"n": 2})
    assert [event.payload["n"] for event in reader.events(writer.id, after=1)] == [2]
    assert reader.find(writer.id).status == "running"


WRITER = """
import sys
from pathlib import Path
from whimbrel.app.sessions import SessionStore
store = SessionStore.open(Path(sys.argv[1]))
writer = store.create(title="t", repository="/r", model="m")
for n in range(1, 10**9):
    writer.append("notice", {"n": n, "filler": "x" * (n % 5000)})
    if n % 7 == 0:
        writer.keep(b"blob %d" % n * 300, "text/plain")
    print(writer.id, n, flush=True)
"""


def test_kill_9_at_any_moment_leaves_every_acknowledged_event_readable(tmp_path: Path) -> None:
    for round_number in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert process.stdout is not None
        for _ in range(5 + 37 * round_number):
            line = process.stdout.readline()
        time.sleep(0.003 * round_number)
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().splitlines()
        process.wait()
        complete = [entry for entry in [line.strip(), *rest] if len(entry.split()) == 2]
        session_id, acknowledged = complete[-1].split()

        notices: list[str] = []
        store = SessionStore.open(tmp_path, notice=notices.append)
        assert notices == []
        numbers = [event.payload["n"] for event in store.events(session_id)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= int(acknowledged)
        assert store.find(session_id).status == "interrupted"
        store.reopen(session_id).append("notice", {"n": len(numbers) + 1})
        store.close()
    with sqlite3.connect(tmp_path / "sessions" / "sessions.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize(
    "damage", [b"this is no database at all, just words " * 200, b"SQLite format 3\x00" + b"\xff" * 9000]
)
def test_a_corrupt_store_is_moved_aside_with_a_notice_and_never_blocks_a_start(
    tmp_path: Path, damage: bytes
) -> None:
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "sessions.db").write_bytes(damage)
    notices: list[str] = []
    store = SessionStore.open(tmp_path, notice=notices.append)
    writer = make(store)
    writer.append("notice", {"text": "works"})
    assert len(store.sessions()) == 1
    (aside,) = (tmp_path / "sessions").glob("sessions.db.corrupt-*")
    assert aside.read_bytes() == damage
    assert len(notices) == 1 and str(aside) in notices[0]


def test_a_store_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    SessionStore.open(tmp_path).close()
    path = tmp_path / "sessions" / "sessions.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match="newer whimbrel"):
        SessionStore.open(tmp_path)
    assert path.exists()


def test_a_state_directory_that_cannot_be_made_gives_a_store_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    notices: list[str] = []
    store = SessionStore.open(tmp_path / "file" / "below", notice=notices.append)
    writer = make(store)
    writer.append("notice", {"text": "kept"})
    assert [event.payload["text"] for event in store.events(writer.id)] == ["kept"]
    assert len(notices) == 1 and "memory" in notices[0]


def test_a_full_disk_is_reported_once_and_the_run_goes_on_with_its_blobs(tmp_path: Path) -> None:
    problems: list[str] = []
    store = SessionStore.open(tmp_path)
    # SQLite's own page limit gives the very error a full disk gives.
    store.connection.execute("PRAGMA max_page_count = 60")
    writer = store.create(title="t", repository="/r", model="m", on_problem=problems.append)
    stored = 0
    while writer.dropped == 0:
        writer.append("notice", {"filler": os.urandom(4000).hex()})
        stored += 1
    handle = writer.keep(b"complete output", "text/plain")
    writer.append("notice", {"after": True})
    assert writer.fetch(handle) == b"complete output"
    assert writer.dropped == 2
    assert len(problems) == 1 and "disk is full" in problems[0]
    writer.close("fixed")
    assert len(list(SessionStore.open(tmp_path).events(writer.id))) == stored - 1


def test_blobs_are_stored_once_compressed_and_fetched_by_their_handle(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path)
    writer = make(store)
    output = b"the same line again\n" * 100_000
    handle = writer.keep(output, "text/plain")
    assert writer.keep(output, "text/plain") == handle
    assert writer.fetch(handle) == output
    assert store.blob(handle) == (output, "text/plain")
    assert sum(path.stat().st_size for path in store.directory.iterdir()) < len(output) / 4
    for wrong in ("0123456789abcdef", "", "../../etc/passwd", "%"):
        with pytest.raises(KeyError):
            writer.fetch(wrong)


def test_no_key_of_the_environment_reaches_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHIMBREL_API_KEY", "Canary-key-8731")
    store = SessionStore.open(tmp_path)
    writer = store.create(title="about canary-KEY-8731", repository="/r", model="m")
    writer.append("message", {"text": "it is CANARY-key-8731", "list": ["Canary-key-8731"]})
    kept = writer.keep(b"log: canary-key-8731", "text/plain")
    writer.close("ended")
    assert writer.fetch(kept) == b"log: [redacted:WHIMBREL_API_KEY]"
    for path in store.directory.iterdir():
        assert b"canary-key-8731" not in path.read_bytes().lower()


def test_the_ledger_is_mirrored_row_by_row(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path)
    writer = make(store)
    ledger = EvidenceLedger([writer.evidence])
    ledger.record(
        purpose="baseline",
        argv=("python", "-m", "pytest"),
        cwd="/r",
        sandbox_kind="bwrap",
        image_digest=None,
        tree="0" * 40,
        fresh_process=True,
        exit_code=1,
        timed_out=False,
        duration_s=0.5,
        outcomes={"test_a": "failed"},
    )
    (event,) = store.events(writer.id)
    assert event.kind == "evidence"
    assert event.payload["outcomes"] == {"test_a": "failed"} and event.payload["number"] == 1


def test_leaving_the_writer_records_how_the_run_ended(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path)
    with pytest.raises(NotFixed), make(store) as writer:
        writer.append("notice", {})
        raise NotFixed("no patch was good enough")
    assert store.find(writer.id).status == "not_fixed"
    with pytest.raises(KeyboardInterrupt), make(store) as writer:
        writer.append("notice", {})
        raise KeyboardInterrupt
    assert store.find(writer.id).status == "cancelled"


def run_cli(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from whimbrel.app.cli import main; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", code, "session", *arguments],
        env={"PATH": os.environ["PATH"], "WHIMBREL_STATE_DIR": str(state), "LC_ALL": "C"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, str]:
    store = SessionStore.open(tmp_path)
    with make(store, title="Totals are wrong\nfor é") as writer:
        writer.append(
            "message", {"role": "user", "parts": [{"kind": "text", "text": "[/red] fix ```x``` \x1b[31m"}]}
        )
        handle = writer.keep(b"whole log", "text/plain")
        call = {"kind": "tool_call", "id": "1", "name": "read", "arguments": '{"path":"a.py"}'}
        writer.append(
            "message", {"role": "assistant", "parts": [{"kind": "reasoning", "text": "hm\nso"}, call]}
        )
        result = {
            "kind": "tool_result",
            "call_id": "1",
            "name": "read",
            "text": "a = '```'",
            "artifacts": [handle],
        }
        writer.append("message", {"role": "tool", "parts": [result]})
    return tmp_path, writer.id


def test_session_list_shows_one_line_per_session(recorded: tuple[Path, str]) -> None:
    state, session_id = recorded
    listing = run_cli(state, "list")
    assert listing.returncode == 0
    head, line = listing.stdout.splitlines()
    assert head.split() == ["SESSION", "STARTED", "STATUS", "EVENTS", "REPOSITORY", "TITLE"]
    assert (
        line.startswith(session_id)
        and "ended" in line
        and "shop" in line
        and line.endswith("Totals are wrong for é")
    )
    assert json.loads(run_cli(state, "list", "--json").stdout)["id"] == session_id


def test_session_list_of_a_fresh_machine_says_what_makes_one(tmp_path: Path) -> None:
    listing = run_cli(tmp_path, "list")
    assert (listing.returncode, listing.stdout) == (0, "")
    assert "fix-issue" in listing.stderr


def test_session_show_prints_a_transcript_with_controls_made_visible(recorded: tuple[Path, str]) -> None:
    state, session_id = recorded
    shown = run_cli(state, "show", session_id[:17])
    assert shown.returncode == 0, shown.stderr
    assert "> hm\n> so" in shown.stdout
    assert "[/red] fix ```x``` \\x1b[31m" in shown.stdout and "\x1b" not in shown.stdout
    assert "````\na = '```'\n````" in shown.stdout


def test_session_export_gives_every_event_and_blob_as_json_lines(recorded: tuple[Path, str]) -> None:
    state, session_id = recorded
    target = state / "out.jsonl"
    exported = run_cli(state, "export", session_id, "--blobs", "-o", str(target))
    assert exported.returncode == 0, exported.stderr
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["session", "message", "message", "message", "blob"]
    assert lines[4]["data_base64"] == "d2hvbGUgbG9n"
    markdown = run_cli(state, "export", session_id, "--format", "markdown")
    assert markdown.stdout == run_cli(state, "show", session_id).stdout


def test_an_unknown_session_is_one_line_with_exit_code_2(recorded: tuple[Path, str]) -> None:
    shown = run_cli(recorded[0], "show", "nonsense")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert len(shown.stderr.splitlines()) == 1
    assert "nonsense" in shown.stderr and "session list" in shown.stderr


def test_a_beginning_that_fits_several_sessions_is_refused(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path)
    for _ in range(2):
        with make(store) as writer:
            writer.append("notice", {})
    shown = run_cli(tmp_path, "show", "2")
    assert shown.returncode == 2 and "2 sessions" in shown.stderr


def test_following_a_session_ends_with_it(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path)
    writer = make(store)
    writer.append("notice", {"kind": "notice", "text": "first"})
    code = "import sys; from whimbrel.app.cli import main; main(sys.argv[1:])"
    follower = subprocess.Popen(
        [sys.executable, "-c", code, "session", "show", "--follow", writer.id],
        env={"PATH": os.environ["PATH"], "WHIMBREL_STATE_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    seen = ""
    while "first" not in seen:
        seen += follower.stdout.readline()
    writer.append("notice", {"kind": "notice", "text": "second"})
    writer.close("fixed")
    rest, _ = follower.communicate(timeout=30)
    assert "second" in rest and rest.count("# Session") == 0
    assert follower.returncode == 0


def test_a_closed_session_takes_no_more_events_and_keeps_its_status(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path)
    writer = make(store)
    writer.append("notice", {})
    writer.close("fixed")
    writer.append("notice", {"late": True})
    writer.close("cancelled")
    assert store.find(writer.id).status == "fixed"
    assert len(list(store.events(writer.id))) == 1 and writer.dropped == 1


def test_damage_in_the_middle_of_the_store_is_found_at_the_next_start(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path)
    writer = make(store)
    for number in range(200):
        writer.append("notice", {"n": number, "filler": "x" * 500})
    writer.close("ended")
    store.close()
    path = tmp_path / "sessions" / "sessions.db"
    data = bytearray(path.read_bytes())
    data[8192:40960] = os.urandom(32768)
    path.write_bytes(data)
    listing = run_cli(tmp_path, "list")
    assert listing.returncode == 0 and listing.stdout == ""
    assert "moved to" in listing.stderr.splitlines()[0]
    again = SessionStore.open(tmp_path)
    with make(again) as writer:
        writer.append("notice", {})
    assert len(again.sessions()) == 1


def test_nothing_a_session_holds_reaches_the_terminal_raw_or_stops_the_transcript(tmp_path: Path) -> None:
    """Texts of models and files, parts that lack fields, fields of another type: all are shown escaped."""
    evil = "x\x1b[2J\x07\u202e"
    store = SessionStore.open(tmp_path)
    writer = make(store, title=evil, repository=f"/src/{evil}", model=evil)
    parts = [
        {"kind": "text"},
        {"kind": "tool_call", "name": evil},
        {"kind": "tool_result", "artifacts": [evil]},
    ]
    writer.append("message", {"role": evil, "parts": [*parts, {"kind": "new"}, 5]})
    for payload in ({"role": "user", "parts": None}, [1, 2], {"number": evil, "argv": None, "tree": evil}):
        for kind in ("message", "evidence", "run_finished", "notice", evil):
            writer.append(kind, payload if kind != "run_finished" else {"status": evil, "steps": evil})
    writer.close(evil)
    for command in (["list"], ["show", writer.id], ["export", writer.id, "--format", "markdown"]):
        shown = run_cli(tmp_path, *command)
        assert shown.returncode == 0, shown.stderr
        assert "x\\x1b[2J" in shown.stdout
        assert not set("\x1b\x07\u202e") & set(shown.stdout + shown.stderr)


def test_a_store_that_lacks_a_table_is_moved_aside_like_any_damage(tmp_path: Path) -> None:
    with make(SessionStore.open(tmp_path)) as writer:
        writer.append("notice", {})
    database = sqlite3.connect(tmp_path / "sessions" / "sessions.db")
    database.execute("DROP TABLE blobs")
    database.close()
    said: list[str] = []
    assert SessionStore.open(tmp_path, notice=said.append).sessions() == []
    assert len(said) == 1 and "moved to" in said[0]
