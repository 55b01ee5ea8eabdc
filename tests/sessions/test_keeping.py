"""Whole sessions: older stores, going out and coming in, search, room, and what is never believed."""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.sessions import SessionStore, SessionWriter
from whimbrel.app.sessions.export import json_lines, markdown_events
from whimbrel.app.sessions.html import html_page
from whimbrel.app.sessions.importing import import_session
from whimbrel.app.sessions.keeping import delete, fork, prune, rename
from whimbrel.app.sessions.replay import replay
from whimbrel.app.sessions.rewinding import turns
from whimbrel.engine.chat import Message, ToolResultPart, user
from whimbrel.sandbox.base.errors import UsageError

V1 = Path(__file__).parents[1] / "fixtures" / "sessions_v1.sql"


def make(store: SessionStore, *texts: str, title: str = "a bug") -> SessionWriter:
    writer = store.create(title=title, repository="/src/shop", model="vllm:one")
    writer.append("turn_started", {"model": "vllm:one"})
    for text in texts:
        writer.append("message", user(text).model_dump())
    return writer


def exported(store: SessionStore, session_id: str) -> list[bytes]:
    return [line.encode() for line in json_lines(store, store.find(session_id), blobs=True)]


# ---------------------------------------------------------------- older formats


def test_a_store_of_the_first_format_is_brought_up_to_date_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    with sqlite3.connect(tmp_path / "sessions" / "sessions.db") as connection:
        connection.executescript(V1.read_text())
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    notices: list[str] = []
    store = SessionStore.open(tmp_path, notice=notices.append)
    (info,) = store.sessions()
    assert (notices, info.title, info.status, info.events) == ([], "The total is wrong", "not_fixed", 7)
    said = replay(store.events(info.id)).messages("vllm:one")
    assert [message.role for message in said] == ["system", "user", "assistant", "tool", "assistant"]
    assert said[2].parts[0].text == "Look at total." and said[4].parts[0].text == ""  # pyright: ignore
    assert [hit.seq for hit in store.search("slice drops")] == [6]
    other = fork(store, info.id, 4)
    delete(store, info.id)
    assert store.blob(str(said[3].parts[0].artifacts[0]))[0] == b"line\n" * 500, "the fork uses it"  # pyright: ignore
    other.close("ended")
    delete(store, other.id)
    assert store.connection.execute("SELECT count(*) FROM blobs").fetchone() == (0,)
    store.close()
    assert SessionStore.open(tmp_path, notice=notices.append).sessions() == [] and notices == []


# ---------------------------------------------------------------- out and in


def test_an_export_comes_back_whole_under_its_id_or_a_new_one(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path / "a")
    writer = make(store, "hello\n\x00\x1b[31m 笔记 \ud83d")
    handle = writer.keep(b"all of it" * 100, "text/plain")
    part = ToolResultPart(call_id="c", name="bash", text="cut", artifacts=(handle,))
    writer.append("message", Message(role="tool", parts=(part,)).model_dump())
    patch = writer.keep_exact(b"diff --git a/x b/x\n", "text/x-patch")
    assert patch is not None
    tree = "a" * 40
    state = {"base_commit": None, "base_tree": tree, "tree": "b" * 40, "diff": patch[0], "stored": patch[1]}
    writer.append("files", state)
    writer.close("answered")
    lines = exported(store, writer.id)
    other = SessionStore.open(tmp_path / "b")
    first = import_session(other, lines)
    assert (first.id, first.events, first.new_id) == (writer.id, 4, False)
    before, after = list(store.events(writer.id)), list(other.events(first.id))
    assert [(e.kind, e.payload, e.time) for e in after[:4]] == [(e.kind, e.payload, e.time) for e in before]
    assert other.blob(handle)[0] == b"all of it" * 100 and other.blob(patch[0])[0] == b"diff --git a/x b/x\n"
    assert [hit.seq for hit in other.search("hello")] == [2]
    again = import_session(other, lines)
    assert again.new_id and again.id != first.id
    with pytest.raises(UsageError, match="no session"):
        other.latest("/src/shop")


def test_a_cut_last_line_is_left_out_with_a_note_and_damage_elsewhere_refuses_the_file(
    tmp_path: Path,
) -> None:
    store = SessionStore.open(tmp_path / "a")
    writer = make(store, "one", "two")
    writer.close("answered")
    lines = exported(store, writer.id)
    other = SessionStore.open(tmp_path / "b")
    made = import_session(other, [*lines[:-1], lines[-1][:40]])
    assert made.events == 2 and "cut off" in made.notes[0]
    with pytest.raises(UsageError, match="line 2 is not JSON"):
        import_session(other, [lines[0], lines[1][:30] + b"\n", *lines[2:]])
    with pytest.raises(UsageError, match="holds no session"):
        import_session(other, [])


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


HOSTILE: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "an id that is a path": lambda rows: rows[0].update(id="../../../../etc/cron.d/x"),
    "an id of another form": lambda rows: rows[0].update(id="20260101-000000-abcdef\n"),
    "a title that is no text": lambda rows: rows[0].update(title={"a": 1}),
    "a time that is none": lambda rows: rows[0].update(created=float("nan")),
    "a gap in the numbers": lambda rows: rows[2].update(seq=7),
    "a number that is true": lambda rows: rows[1].update(seq=True),
    "a parent to come": lambda rows: rows[2].update(parent_seq=2),
    "an event of another session": lambda rows: rows[1].update(session="20260101-000000-abcdef"),
    "a kind that is a statement": lambda rows: rows[1].update(kind="x'); DROP TABLE events; --"),
    "a newer format": lambda rows: rows[1].update(version=99),
    "a message that is none": lambda rows: rows[2].update(payload={"role": "root", "parts": []}),
    "a message with a part too many": lambda rows: rows[2]["payload"]["parts"].append({"kind": "exec"}),
    "files that lie elsewhere": lambda rows: rows[1].update(kind="files", payload={"diff": "../../x"}),
    "a blob that is not what it says": lambda rows: rows[3].update(data_base64=base64.b64encode(b"evil").decode()),
    "a blob that is no base64": lambda rows: rows[3].update(data_base64="%%%"),
    "a blob with a path for a handle": lambda rows: rows[3].update(handle="../../../../../tmp/x"),
    "an event behind the blobs": lambda rows: rows.append({**rows[2], "seq": 3}),
    "something else": lambda rows: rows.append({"kind": "run", "command": "true"}),
    "no head": lambda rows: rows.pop(0),
}  # fmt: skip


@pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_export_is_refused_whole(
    tmp_path: Path, spoil: Callable[[list[dict[str, Any]]], object]
) -> None:
    store = SessionStore.open(tmp_path / "a")
    writer = make(store, "one")
    writer.close("answered")
    rows = [json.loads(line) for line in exported(store, writer.id)]
    data = b"complete output"
    handle = hashlib.sha256(data).hexdigest()[:16]
    rows.append(
        {
            "kind": "blob",
            "handle": handle,
            "media": "text/plain",
            "data_base64": base64.b64encode(data).decode(),
        }
    )
    other = SessionStore.open(tmp_path / "b")
    spoil(rows)
    with pytest.raises(UsageError, match="nothing was imported: line"):
        import_session(other, [_line(row) for row in rows])
    assert other.sessions() == []
    assert other.connection.execute("SELECT count(*) FROM blobs").fetchone() == (0,)


def test_events_of_no_sense_are_read_without_harm(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path)
    writer = make(store, "one")
    for payload in ({"to": "x", "chat": 1}, {"to": [1], "files": 1}, {"to": 99, "files": 1}, {}, [], None, 7):
        for kind in ("rewound", "files", "message", "turn_started", "run_ended", "forked"):
            writer.append(kind, payload)
    conversation = replay(store.events(writer.id))
    assert [each.seq for each in conversation.said] == [2] and conversation.files is None
    assert next(iter(turns(store, writer.id))).seq == 2
    assert "".join(html_page(store.find(writer.id), store.events(writer.id))).endswith("</html>\n")


def test_json_that_only_nests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 1"):
        import_session(SessionStore.open(tmp_path), [b"[" * 200_000 + b"]" * 200_000 + b"\n", b"{}\n"])


# ---------------------------------------------------------------- pages


def test_the_html_page_holds_no_live_markup_no_address_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SessionStore.open(tmp_path)
    evil = "</div><script>alert(1)</script><img src=x onerror=alert(2)> &amp; \u202e\x00 hunter2-canary"
    writer = make(store, evil, title=f"</title>{evil}")
    parts = [
        {"kind": "reasoning", "text": evil}, {"kind": "tool_call", "id": "1", "name": evil, "arguments": evil},
        {"kind": "image", "media_type": 'image/png" onload="x', "data_base64": evil},
        {"kind": "image", "media_type": "image/svg+xml", "data_base64": "PHN2Zz4="},
        {"kind": "image", "media_type": "image/png", "data_base64": "iVBORw=="},
    ]  # fmt: skip
    writer.append("message", {"role": evil, "parts": parts})
    writer.append("notice", {"text": evil})
    writer.append("run_ended", {"status": evil, "message": evil})
    writer.close("answered")
    monkeypatch.setenv("SOME_TOKEN", "hunter2-canary")
    info = store.find(writer.id)
    page = "".join(html_page(info, store.events(info.id)))
    assert "<script" not in page and "onerror=alert(2)>" not in page and "<img src=x" not in page
    assert page.count("<img ") == 1 and 'src="data:image/png;base64,iVBORw=="' in page
    assert "&lt;script&gt;" in page and "http" not in page.replace("http-equiv", "")
    assert "\x00" not in page and "\u202e" not in page
    transcript = "".join(markdown_events(store.events(info.id)))
    for text in (page, transcript, b"".join(exported(store, info.id)).decode()):
        assert "hunter2-canary" not in text and "[redacted:SOME_TOKEN]" in text


# ---------------------------------------------------------------- finding and room


@pytest.mark.parametrize("indexed", [True, False])
def test_words_are_found_in_titles_and_messages_whatever_their_case(tmp_path: Path, indexed: bool) -> None:
    store = SessionStore.open(tmp_path)
    if not indexed:
        store.connection.execute("DROP TABLE message_text")
    first = make(store, "The Parser drops a comma", title="Commas")
    second = make(store, "価格の合計が違う", 'quotes " * and -dashes', title="Sums of prices")
    assert [(hit.session_id, hit.seq) for hit in store.search("comma parser")] == [(first.id, 2)]
    assert [(hit.session_id, hit.seq) for hit in store.search("sums")] == [(second.id, 0)]
    assert [hit.seq for hit in store.search("合計")] == [2]
    assert [hit.seq for hit in store.search('" *')] in ([3], []), "a query is words, never syntax"
    assert store.search("nowhere") == [] and store.search("  ") == []
    rename(store, first.id, " Lists \n of things ")
    assert [hit.excerpt for hit in store.search("lists")] == ["Lists of things"]


def test_pruning_takes_the_longest_unused_first_and_never_one_that_is_written(tmp_path: Path) -> None:
    store = SessionStore.open(tmp_path)
    made: list[SessionWriter] = []
    for number in range(4):
        writer = make(store, f"session {number}")
        writer.keep(hashlib.sha256(bytes([number])).digest() * 1 + bytes([number]) * 10, "text/plain")
        writer.append("message", user("x" * 100_000).model_dump())
        if number != 1:
            writer.close("answered")
        store.connection.execute("UPDATE sessions SET updated = ? WHERE id = ?", (1000.0 + number, writer.id))
        made.append(writer)
    assert [info.id for info, _ in prune(store, max_bytes=150_000, dry_run=True)] == [
        made[0].id,
        made[2].id,
        made[3].id,
    ]
    assert len(store.sessions()) == 4
    assert [info.id for info, _ in prune(store, max_bytes=250_000)] == [made[0].id, made[2].id]
    assert {info.id for info in store.sessions()} == {made[1].id, made[3].id}
    assert store.connection.execute("SELECT count(*) FROM blobs").fetchone() == (2,)
    with pytest.raises(UsageError, match="being written"):
        delete(SessionStore.open(tmp_path), made[1].id)
    assert [info.id for info, _ in prune(store, older_than_s=3600)] == [made[3].id]
