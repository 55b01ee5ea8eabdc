"""`whimbrel acp` driven by the protocol's own client library, as an editor drives it."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, helpers
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse
from acp.stdio import spawn_agent_process
from PIL import Image

from tests.fix.conftest import WHIMBREL, Repo, buggy, home, repo
from tests.mock_server import MockServer, Pause, chunk, completion, every_call_answered, stream

__all__ = ["buggy", "home", "repo"]

CALC = "def add(a, b):\n    return a - b\n"


class Editor:
    """What an editor does with an agent: shows updates, answers questions by the first option of a kind."""

    def __init__(self, answer: Callable[[Any], str | None]) -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self._answer = answer

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append(tool_call)
        wanted = self._answer(tool_call)
        if wanted is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        assert wanted in {each.option_id for each in options}
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=wanted))

    def on_connect(self, conn: Any) -> None:
        return

    def said(self, kind: str = "agent_message_chunk") -> str:
        return "".join(each.content.text for each in self.updates if each.session_update == kind)

    def calls(self) -> list[tuple[str, str]]:
        """(title or "", status) of every update of a tool call."""
        return [
            (each.title or "", each.status)
            for each in self.updates
            if each.session_update in ("tool_call", "tool_call_update")
        ]


@asynccontextmanager
async def editor(
    home: dict[str, str], answer: Callable[[Any], str | None] = lambda _: None, *arguments: str
) -> AsyncIterator[tuple[Editor, Any, Any]]:
    me = Editor(answer)
    command = [*WHIMBREL, "acp", "--sandbox", "host", "--no-build", "--python", sys.executable, *arguments]
    async with spawn_agent_process(lambda _: me, *command, env=home) as (connection, process):  # type: ignore[arg-type]
        hello = await connection.initialize(protocol_version=1)
        assert hello.protocol_version == 1 and hello.agent_info.name == "whimbrel"
        yield me, connection, process


@pytest.fixture
def calc(repo: Repo) -> Repo:
    return repo.write(**{"calc.py": CALC}).commit()


EDIT = completion(calls=[("c1", "edit", {"path": "calc.py", "old": "a - b", "new": "a + b"})])


@pytest.mark.parametrize(
    ("answer", "text"), [("apply", CALC.replace("-", "+")), ("leave", CALC), (None, CALC)]
)
async def test_what_a_turn_changed_goes_into_the_files_when_the_person_says_so(
    home: dict[str, str], calc: Repo, answer: str | None, text: str
):
    script = [EDIT, completion(text="Added instead of subtracted.", reasoning="Hm.")]
    with MockServer(script, validators=(every_call_answered,)) as server:
        async with editor(home, lambda _: answer, "--model", server.model()) as (me, agent, _):
            session = await agent.new_session(cwd=str(calc.root), mcp_servers=[])
            done = await agent.prompt(session_id=session.session_id, prompt=[helpers.text_block("Fix add")])
    assert done.stop_reason == "end_turn"
    assert me.said() == "Added instead of subtracted."
    assert "Hm." in me.said("agent_thought_chunk")
    edits = [each for each in me.updates if each.session_update == "tool_call" and each.kind == "edit"]
    assert edits[0].title == "edit calc.py"
    assert edits[0].locations[0].path == str(calc.root / "calc.py")
    (question,) = me.asked
    assert "calc.py" in question.title and "+    return a + b" in question.content[0].content.text
    assert "no test ran on the final state" in question.content[0].content.text
    assert (calc.root / "calc.py").read_text() == text
    last = me.updates[-1]
    assert last.status == ("completed" if answer == "apply" else "failed")
    assert all(each.content.text for each in me.updates if each.session_update.endswith("_chunk"))


async def test_the_same_edit_leaves_the_same_bytes_through_the_command_and_an_editor(
    home: dict[str, str], repo: Repo
):
    odd = b"\xef\xbb\xbfdef add(a, b):\r\n\treturn a - b  \r\n# \xc3\xa9"
    left: list[bytes] = []
    for door in ("run", "acp"):
        (repo.root / "calc.py").write_bytes(odd)
        repo.commit()
        with MockServer([EDIT, completion(text="Done.")]) as server:
            if door == "acp":
                async with editor(home, lambda _: "apply", "--model", server.model()) as (_, agent, _process):
                    session = await agent.new_session(cwd=str(repo.root), mcp_servers=[])
                    await agent.prompt(session_id=session.session_id, prompt=[helpers.text_block("Fix add")])
            else:
                command = ("run", "--repo", str(repo.root), "--sandbox", "host", "--no-build", "--apply")
                process = await asyncio.create_subprocess_exec(
                    *WHIMBREL, *command, "--python", sys.executable, "--model", server.model(), "Fix add",
                    env=home, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
                )  # fmt: skip
                assert await process.wait() == 0
        left.append((repo.root / "calc.py").read_bytes())
    assert left == [odd.replace(b"a - b", b"a + b")] * 2


async def test_the_embedded_model_repairs_a_project_in_an_editor(home: dict[str, str], buggy: Repo):
    async with editor(home, lambda _: "apply") as (me, agent, _):
        session = await agent.new_session(cwd=str(buggy.root), mcp_servers=[])
        assert session.modes.current_mode_id == "default"
        done = await agent.prompt(
            session_id=session.session_id, prompt=[helpers.text_block("A test fails; repair it.")]
        )
    assert done.stop_reason == "end_turn"
    assert ("run_tests", "in_progress") in me.calls()
    assert "if count > most" in (buggy.root / "tally.py").read_text()


@pytest.mark.parametrize(("answer", "seen"), [("allow", "hello"), ("deny", "the person said no")])
async def test_a_command_that_needs_consent_waits_for_the_editors_answer(
    home: dict[str, str], calc: Repo, answer: str | None, seen: str
):
    script = [completion(calls=[("c1", "bash", {"command": "echo hello"})]), completion(text="Done.")]
    with MockServer(script, validators=(every_call_answered,)) as server:
        arguments = ("--model", server.model(), "--ask", "bash")
        async with editor(home, lambda _: answer, *arguments) as (me, agent, _):
            session = await agent.new_session(cwd=str(calc.root), mcp_servers=[])
            await agent.prompt(session_id=session.session_id, prompt=[helpers.text_block("Say hello")])
        results = [each for each in server.requests[-1].messages if each["role"] == "tool"]
    assert me.asked[0].title == "bash echo hello" and me.asked[0].kind == "execute"
    assert "ask: echo hello" in me.asked[0].content[0].content.text
    assert seen in results[0]["content"]


async def test_a_cancelled_turn_ends_at_once_and_the_next_one_goes_on(home: dict[str, str], calc: Repo):
    reached, free = threading.Event(), threading.Event()

    def script(request: Any) -> Any:
        if "Second" in json.dumps(request.messages[-1]):
            return completion(text="Here I am.")
        reached.set()
        return stream(chunk({"content": "Let me"}), Pause(free), chunk({"content": " never"}))

    with MockServer(script) as server:
        async with editor(home, lambda _: None, "--model", server.model()) as (me, agent, _):
            session = await agent.new_session(cwd=str(calc.root), mcp_servers=[])
            name = session.session_id
            turn = asyncio.create_task(agent.prompt(session_id=name, prompt=[helpers.text_block("First")]))
            await asyncio.to_thread(reached.wait, 30)
            with pytest.raises(RequestError, match="a turn of this session is running"):
                await agent.prompt(session_id=name, prompt=[helpers.text_block("Me too")])
            await agent.cancel(session_id=name)
            assert (await turn).stop_reason == "cancelled"
            free.set()
            done = await agent.prompt(session_id=name, prompt=[helpers.text_block("Second")])
            assert done.stop_reason == "end_turn" and me.said().endswith("Here I am.")


async def test_an_editor_finds_its_conversations_again(home: dict[str, str], calc: Repo, tmp_path: Path):
    with MockServer([completion(text="It adds."), completion(text="As I said, it adds.")]) as server:
        async with editor(home, lambda _: None, "--model", server.model()) as (_, agent, _process):
            first = await agent.new_session(cwd=str(calc.root), mcp_servers=[])
            await agent.prompt(session_id=first.session_id, prompt=[helpers.text_block("What does it do?")])
        async with editor(home, lambda _: None, "--model", server.model()) as (me, agent, _process):
            listed = await agent.list_sessions(cwd=str(calc.root))
            assert [each.session_id for each in listed.sessions] == [first.session_id]
            assert listed.sessions[0].title == "What does it do?"
            assert (await agent.list_sessions(cwd=str(tmp_path / "elsewhere"))).sessions == []
            await agent.load_session(cwd=str(calc.root), session_id=first.session_id, mcp_servers=[])
            assert "What does it do?" in me.said("user_message_chunk")
            assert me.said() == "It adds."
            await agent.prompt(session_id=first.session_id, prompt=[helpers.text_block("Really?")])
            assert me.said() == "It adds.As I said, it adds."
        assert "It adds." in json.dumps(server.requests[-1].messages)


async def test_files_an_editor_sends_along_are_data_under_their_name(home: dict[str, str], calc: Repo):
    uri = (calc.root / "calc.py").as_uri()
    with MockServer([completion(text="I see.")]) as server:
        async with editor(home, lambda _: None, "--model", server.model()) as (_, agent, _process):
            session = await agent.new_session(cwd=str(calc.root), mcp_servers=[])
            blocks = [
                helpers.text_block("Look at "),
                helpers.resource_link_block("calc.py", uri),
                helpers.resource_block(helpers.embedded_text_resource(uri, "unsaved text")),
            ]
            await agent.prompt(session_id=session.session_id, prompt=blocks)
        asked = json.dumps(server.requests[0].messages[-1])
    assert "Look at @calc.py" in asked and "<<<FILE " in asked and "unsaved text" in asked


async def test_images_of_a_prompt_reach_the_model_and_damaged_ones_are_refused(
    home: dict[str, str], calc: Repo
):
    out = io.BytesIO()
    Image.new("RGB", (30, 20)).save(out, "PNG")
    good, bad = (base64.b64encode(data).decode() for data in (out.getvalue(), b"no picture"))
    with MockServer([completion(text="Black.")]) as server:
        async with editor(home, lambda _: None, "--model", server.model()) as (_, agent, _process):
            session = await agent.new_session(cwd=str(calc.root), mcp_servers=[])
            for data in (bad, "%"):
                with pytest.raises(RequestError, match="image 1 is"):
                    await agent.prompt(
                        session_id=session.session_id, prompt=[helpers.image_block(data, "image/png")]
                    )
            await agent.prompt(
                session_id=session.session_id,
                prompt=[helpers.text_block("What colour?"), helpers.image_block(good, "image/png")],
            )
        content = server.requests[0].messages[-1]["content"]
    assert [part["type"] for part in content] == ["text", "image_url"]
    assert good[:20] in content[1]["image_url"]["url"]


async def test_wrong_requests_get_an_error_and_the_connection_goes_on(home: dict[str, str], calc: Repo):
    async with editor(home) as (_, agent, process):
        for wrong in (
            agent.new_session(cwd="relative", mcp_servers=[]),
            agent.new_session(cwd=str(calc.root / "nowhere"), mcp_servers=[]),
            agent.load_session(cwd=str(calc.root), session_id="20200101-000000-abcdef", mcp_servers=[]),
            agent.prompt(session_id="unknown", prompt=[helpers.text_block("Hi")]),
            agent.set_session_mode(session_id="unknown", mode_id="plan"),
        ):
            with pytest.raises(RequestError):
                await wrong
        session = await agent.new_session(cwd=str(calc.root), mcp_servers=[])
        name = session.session_id
        for wrong in (
            agent.prompt(session_id=name, prompt=[helpers.text_block("  ")]),
            agent.set_session_mode(session_id=name, mode_id="root"),
            agent.set_config_option(config_id="effort", session_id=name, value="most"),
            agent._conn.send_request("session/prompt", {"sessionId": name, "prompt": None}),
            agent._conn.send_request("session/prompt", {"sessionId": None, "prompt": [None]}),
            agent._conn.send_request("no/such", None),
        ):
            with pytest.raises(RequestError):
                await wrong
        await agent.set_session_mode(session_id=name, mode_id="plan")
        effort = await agent.set_config_option(config_id="effort", session_id=name, value="low")
        assert effort.config_options[0].current_value == "low"
        assert process.returncode is None


async def test_an_editor_that_goes_away_ends_the_turn_and_its_process(home: dict[str, str], calc: Repo):
    reached = threading.Event()

    def script(_: Any) -> Any:
        reached.set()
        return stream(Pause(threading.Event()))

    with MockServer(script) as server:
        async with editor(home, lambda _: None, "--model", server.model()) as (_, agent, process):
            session = await agent.new_session(cwd=str(calc.root), mcp_servers=[])
            turn = asyncio.create_task(
                agent.prompt(session_id=session.session_id, prompt=[helpers.text_block("Go")])
            )
            await asyncio.to_thread(reached.wait, 30)
            process.stdin.close()
            assert await asyncio.wait_for(process.wait(), 30) == 0
            turn.cancel()


async def test_a_model_that_cannot_be_reached_is_an_error_with_its_reason(home: dict[str, str], calc: Repo):
    async with editor(home, lambda _: None, "--model", "vllm:x@http://127.0.0.1:9/v1") as (
        _,
        agent,
        _process,
    ):
        session = await agent.new_session(cwd=str(calc.root), mcp_servers=[])
        with pytest.raises(RequestError, match=r"127\.0\.0\.1:9") as raised:
            await agent.prompt(session_id=session.session_id, prompt=[helpers.text_block("Hi")])
        assert raised.value.data["exit_code"] == 8


@pytest.mark.parametrize(
    "line",
    [
        b"garbage", b"[]", b"null", b"5", b'"x"', b"\xff\xfe", b"[" * 20_000, b"{}", b'{"id":{"a":1},"result":1}',
        b'{"id":1,"method":[]}', b'{"id":1,"error":"boom"}', b'{"id":0,"error":[1]}', b" " * (51 << 20) + b"{}",
    ],
    ids=lambda line: line[:24].decode("latin-1").strip() or "too long",
)  # fmt: skip
async def test_a_line_that_is_no_message_is_refused_and_the_next_one_is_answered(line: bytes):
    from whimbrel.app.acp.wire import Lines

    sent: list[Any] = []

    class Writer:
        def write(self, data: bytes) -> None:
            sent.append(json.loads(data))

        async def drain(self) -> None:
            return

    reader = asyncio.StreamReader(limit=50 << 20)
    reader.feed_data(line + b"\n\n" + b'{"id":2,"method":"initialize"}\n')
    reader.feed_eof()
    wire = Lines(reader, Writer())  # type: ignore[arg-type]
    assert await wire.receive() == {"id": 2, "method": "initialize"}
    assert [each["id"] for each in sent] == [None] and sent[0]["error"]["code"] in (-32700, -32600)
    assert await wire.receive() is None


async def test_a_malformed_line_ends_neither_the_process_nor_its_turns(home: dict[str, str], calc: Repo):
    async with editor(home) as (_, agent, process):
        process.stdin.write(b'[]\nnull\n{"id":{"a":1},"result":1}\n')
        session = await agent.new_session(cwd=str(calc.root), mcp_servers=[])
        assert session.session_id and process.returncode is None


async def test_a_prompt_is_one_turn_until_its_question_is_answered_and_cancelling_takes_that_back(
    home: dict[str, str], calc: Repo
):
    asked, never = asyncio.Event(), asyncio.Event()

    class Slow(Editor):
        async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **_: Any):
            if asked.is_set():  # the changes are still in the copy, so they are offered again
                return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
            asked.set()
            await never.wait()
            raise AssertionError("nobody answers")

    me = Slow(lambda _: None)
    with MockServer([EDIT, completion(text="Done."), completion(text="Next.")]) as server:
        command = [*WHIMBREL, "acp", "--sandbox", "host", "--no-build", "--python", sys.executable,
                   "--model", server.model()]  # fmt: skip
        async with spawn_agent_process(lambda _: me, *command, env=home) as (agent, _):  # type: ignore[arg-type]
            await agent.initialize(protocol_version=1)
            name = (await agent.new_session(cwd=str(calc.root), mcp_servers=[])).session_id
            turn = asyncio.create_task(agent.prompt(session_id=name, prompt=[helpers.text_block("Fix add")]))
            await asyncio.wait_for(asked.wait(), 60)
            with pytest.raises(RequestError, match="is running"):
                await agent.prompt(session_id=name, prompt=[helpers.text_block("More")])
            await agent.cancel(session_id=name)
            assert (await asyncio.wait_for(turn, 30)).stop_reason == "cancelled"
            assert (calc.root / "calc.py").read_text() == CALC
            done = await agent.prompt(session_id=name, prompt=[helpers.text_block("Go on")])
            assert done.stop_reason == "end_turn" and "Next." in me.said()
