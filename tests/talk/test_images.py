"""Images that the person shows reach the model; what cannot be shown is told before anything runs."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.talk.images import MAX_IMAGES, load_images, mentioned
from whimbrel.engine.chat import Capabilities, ImagePart, Message, TextPart, user
from whimbrel.engine.kimi.chatmodel import KimiModel
from whimbrel.engine.unseen import NO_IMAGE, remarked
from whimbrel.sandbox.base.errors import UsageError

from tests.fix.conftest import Repo
from tests.mock_server import completion

from .conftest import server
from .test_turn import Talk


@pytest.fixture
def shot(tmp_path: Path) -> Path:
    from PIL import Image

    path = tmp_path / "my shot.png"
    Image.new("RGB", (30, 20), (200, 0, 0)).save(path)
    return path


def test_an_image_of_the_command_line_stands_behind_the_words(calc: Repo, talk: Talk, shot: Path):
    from PIL import Image

    with server([completion(text="A red one.")]) as model:
        ran = talk(calc, "what is this?", "--model", model.model(), "--picture", str(shot))
        content = model.requests[0].messages[-1]["content"]
    assert ran.code == 0, ran.err
    assert [part["type"] for part in content] == ["text", "image_url"]
    assert "what is this?" in content[0]["text"]
    sent = Image.open(io.BytesIO(base64.b64decode(content[1]["image_url"]["url"].partition(",")[2])))
    assert sent.size == (30, 20) and sent.getpixel((0, 0)) == (200, 0, 0)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("none.png", None, "image none.png does not exist"),
        ("fake.png", b"no picture", "image fake.png is text, not a PNG"),
    ],
)
def test_what_is_no_image_ends_the_command_with_one_line_and_a_result(
    calc: Repo, talk: Talk, tmp_path: Path, name: str, data: bytes | None, said: str
):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    ran = talk(calc, "look", "--picture", str(tmp_path / name))
    assert ran.code == 2 and said in ran.err and ran.result["status"] == "usage"
    assert len(ran.err.strip().splitlines()) == 1


def test_a_model_without_eyes_says_so(calc: Repo, talk: Talk, shot: Path):
    ran = talk(calc, "make add add", "--max-steps", "1", "--picture", str(shot))
    assert "note: embedded: this model cannot see images" in ran.err
    assert any("cannot see images" in note for note in ran.result["notes"])


def test_names_behind_an_at_sign_are_images_by_their_end(shot: Path):
    folder = shot.parent
    text = f'see @"my shot.png", @calc.py and (@"{shot}") me@x.png @gone.png. @"my shot.png"'
    found, missing = mentioned(text, folder)
    assert found == [shot] and missing == ["gone.png"]


def test_more_images_than_endpoints_take_are_refused(shot: Path):
    with pytest.raises(UsageError, match="11 images are too many"):
        load_images([shot] * (MAX_IMAGES + 1))


def test_a_history_without_images_stays_what_it_is_and_one_with_them_gets_remarks():
    plain = [user("hello")]
    assert remarked(plain) is plain
    image = ImagePart(media_type="image/png", data_base64="AA==")
    (seen,) = remarked([Message(role="user", parts=(TextPart(text="see"), image))])
    assert seen.parts == (TextPart(text="see"), TextPart(text=NO_IMAGE))


def test_a_remote_model_known_to_have_no_eyes_is_sent_words_only(monkeypatch: pytest.MonkeyPatch):
    from whimbrel.engine.models import load_model
    from whimbrel.engine.remote.client import RemoteModel

    model: Any = load_model("vllm:x@http://127.0.0.1:9/v1")
    assert isinstance(model, RemoteModel)
    image = ImagePart(media_type="image/png", data_base64="AA==")
    history = [Message(role="user", parts=(TextPart(text="see"), image))]
    assert "image_url" in str(model._body(history, [], "high", None, None))
    monkeypatch.setattr(RemoteModel, "capabilities", Capabilities(images=False))
    body = model._body(history, [], "high", None, None)
    assert "image_url" not in str(body) and NO_IMAGE in str(body)


def test_a_checkpoint_that_is_not_loaded_is_not_called_blind():
    model = KimiModel.__new__(KimiModel)
    model._answering = None
    model._local = type("Local", (), {"exact": True})()  # type: ignore[assignment]
    assert model.capabilities.images is None
