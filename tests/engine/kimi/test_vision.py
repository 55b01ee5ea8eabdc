"""Images: sizes, padding, hostile files, and the tower against golden numbers."""

from __future__ import annotations

import base64
import io
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from whimbrel.app.cli import main
from whimbrel.engine.chat import ImagePart, Message, ReasoningDelta, TextDelta, TextPart, Usage
from whimbrel.engine.kimi.tiny import TinyOptions, make_tiny
from whimbrel.engine.kimi.vision.config import read_vision_config
from whimbrel.engine.kimi.vision.preprocess import preprocess
from whimbrel.engine.kimi.vision.sizes import ImageLimits
from whimbrel.engine.kimi.vision.tower import VisionModel, gelu, gelu_tanh, interpolated
from whimbrel.engine.models import load_model
from whimbrel.sandbox.base.errors import ConfigError, ModelError, UsageError

TINY = Path(__file__).parents[2] / "fixtures" / "golden" / "vision-tiny"


def png(width: int, height: int, mode: str = "RGB", color: object = 0) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, (width, height), color).save(buffer, "PNG")  # type: ignore[arg-type]
    return buffer.getvalue()


def test_verify_accepts_the_golden_images_and_notices_one_wrong_weight(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        main(["engine", "verify", str(TINY), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0 and report["ok"]
    assert len(report["numbers"]) == 20
    assert max(entry["absolute"] for entry in report["numbers"]) < 1e-5
    wrong = tmp_path / "wrong"
    shutil.copytree(TINY, wrong)
    weights = bytearray((wrong / "model.safetensors").read_bytes())
    weights[-4:] = np.float32(3).tobytes()
    (wrong / "model.safetensors").write_bytes(weights)
    with pytest.raises(SystemExit) as ended:
        main(["engine", "verify", str(wrong)])
    assert ended.value.code == 4
    assert "NOT WITHIN" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((28, 28), (28, 28)),
        ((1, 1), (1, 1)),
        ((640, 480), (640, 480)),
        ((14_336, 10), (7168, 5)),
        ((1, 14_336), (1, 7168)),
        ((14 * 512, 14 * 512), (3584, 3584)),
    ],
)
def test_images_shrink_to_the_limits_and_are_never_enlarged(size: tuple[int, int], expected: tuple[int, int]):
    assert ImageLimits().size(*size) == expected


def test_padding_is_at_the_bottom_and_right_and_becomes_minus_one():
    found = preprocess(png(30, 10, color=(255, 255, 255)), ImageLimits())
    assert found.grid == (1, 2, 4) and found.tokens == 2 and found.size == (30, 10)
    assert found.pixels.shape == (8, 3, 14, 14)
    assert (found.pixels[0, :, :10] == 1).all() and (found.pixels[0, :, 10:] == -1).all()
    assert (found.pixels[2, :, :10, :2] == 1).all() and (found.pixels[2, :, :, 2:] == -1).all()
    assert (found.pixels[3:] == -1)[[0, 1, 4]].all()


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "1", "CMYK", "I;16"])
def test_every_kind_of_image_becomes_rgb(mode: str):
    buffer = io.BytesIO()
    Image.new(mode, (20, 20)).save(buffer, "TIFF" if mode == "CMYK" else "PNG")
    assert preprocess(buffer.getvalue(), ImageLimits()).pixels.shape == (4, 3, 14, 14)


@pytest.mark.parametrize(
    "data",
    [b"", b"no image", (TINY / "image2.png").read_bytes()[:9000], b"\x89PNG\r\n\x1a\n" + bytes(40)],
    ids=range(4),
)
def test_what_is_no_image_is_refused_in_one_line(data: bytes):
    with pytest.raises(UsageError, match="cannot be read") as raised:
        preprocess(data, ImageLimits())
    assert "\n" not in raised.value.one_line()


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded():
    data = bytearray(png(1, 1))
    data[16:24] = (60_000).to_bytes(4, "big") * 2
    import zlib

    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    with pytest.raises(UsageError, match=r"pixels|cannot be read"):
        preprocess(bytes(data), ImageLimits())


def test_the_activations_are_the_exact_ones():
    x = np.linspace(-9, 9, 4001, dtype=np.float32)
    exact = np.array([v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x.astype(np.float64)])
    assert np.abs(gelu(x) - exact).max() < 1e-6
    close = [
        0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
        for v in x.astype(np.float64)
    ]
    assert np.abs(gelu_tanh(x) - np.array(close)).max() < 1e-6


def test_positions_are_read_between_the_middles_of_the_tables_cells():
    table = np.arange(16, dtype=np.float32).reshape(4, 4, 1)
    assert np.array_equal(interpolated(table, 4, 4), table)
    smaller = interpolated(table, 2, 2)[:, :, 0]
    assert smaller.tolist() == [[2.5, 4.5], [10.5, 12.5]]
    larger = interpolated(table, 8, 4)[:, 0, 0]
    assert larger.tolist() == [0.0, 1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 12.0]


def test_attention_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch):
    model = VisionModel.load(TINY)
    data = (TINY / "image2.png").read_bytes()
    _, whole = model(data)
    monkeypatch.setattr("whimbrel.engine.kimi.vision.tower.SCORES_AT_ONCE", 300)
    _, pieces = model(data)
    assert np.abs(whole - pieces).max() < 1e-5


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"attn_bias": True}, "attn_bias"),
        ({"vt_hidden_size": "32"}, "vt_hidden_size"),
        ({"merge_kernel_size": [4, 4]}, "merge_kernel_size"),
        ({"qkv_hidden_size": 63}, "qkv_hidden_size"),
        ({"vt_hidden_size": 64}, "asks for"),
    ],
)
def test_settings_that_are_not_known_are_refused_by_name(
    tmp_path: Path, change: dict[str, object], reason: str
):
    folder = tmp_path / "model"
    shutil.copytree(TINY, folder)
    config = json.loads((folder / "config.json").read_text())
    config["vision_config"].update(change)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises((ConfigError, ModelError), match=reason):
        VisionModel.load(folder)


def test_the_preprocessors_own_file_counts_before_the_config(tmp_path: Path):
    folder = tmp_path / "model"
    shutil.copytree(TINY, folder)
    (folder / "preprocessor_config.json").write_text('{"media_proc_cfg": {"in_patch_limit": 16}}')
    assert read_vision_config(folder)[1].patches == 16
    assert read_vision_config(TINY)[1].patches == 64


async def test_a_conversation_with_a_picture_depends_on_the_picture(tmp_path: Path):
    folder = tmp_path / "tiny"
    make_tiny(folder, TinyOptions(family="k31", vision=True))
    model = load_model(f"kimi:{folder}", environ={"WHIMBREL_KIMI_EXACT": "1"})
    answers: list[str] = []
    try:
        for name in ("image0", "image2", "image0"):
            part = ImagePart(
                media_type="image/png",
                data_base64=base64.b64encode((TINY / f"{name}.png").read_bytes()).decode(),
            )
            said = ""
            asked = Message(role="user", parts=(TextPart(text="What is this?"), part))
            async for event in model.stream([asked], [], effort="low", max_output_tokens=24, seed=1):
                said += event.text if isinstance(event, ReasoningDelta | TextDelta) else ""
                if isinstance(event, Usage):
                    assert event.input_tokens is not None and event.input_tokens > 6
            answers.append(said)
        assert model.capabilities.images
    finally:
        await model.close()
    assert answers[0] == answers[2] != answers[1]
