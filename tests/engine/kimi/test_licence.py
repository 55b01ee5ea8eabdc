"""Licences of checkpoints: told apart, asked about once, and nothing is loaded before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from whimbrel.app.cli import cli
from whimbrel.app.licences import ACCEPT, LicenceStore, require_for_model, require_licence
from whimbrel.engine.cluster.licence import TINY_LICENCE, licence_of
from whimbrel.sandbox.base.errors import ConfigError, PermissionDenied

ROOT = Path(__file__).parents[3]
MIT = """MIT License

Copyright (c) 2026 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation
the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and
to permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of
the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO
THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF
CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS
IN THE SOFTWARE.
"""
KIMI = "Kimi K3 License\n\nStand-in text for tests.\n"


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("WHIMBREL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv(ACCEPT, raising=False)


def checkpoint(tmp_path: Path, text: str | None, *, width: int = 64, name: str = "model") -> Path:
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    config = {"model_type": "kimi_k3", "text_config": {"hidden_size": width}}
    (folder / "config.json").write_text(json.dumps(config))
    if text is not None:
        (folder / "LICENSE").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("text", "width", "kind"),
    [
        (MIT, 64, "MIT"),
        (MIT.replace("\n", "\r\n").upper(), 64, "MIT"),
        (MIT + "\nIf you have more than 100 million users, show our name.\n", 64, "other"),
        (MIT.replace("free of charge", "for a charge"), 64, "other"),
        ("Extra terms. " * 40 + MIT, 64, "other"),
        (TINY_LICENCE, 64, "made here"),
        (TINY_LICENCE + "And one condition.", 64, "other"),
        (KIMI, 64, "Kimi K3"),
        ("whatever", 7168, "Kimi K3"),
        (None, 7168, "Kimi K3"),
        (None, 64, "none"),
        ("whatever", 64, "other"),
        ("", 64, "other"),
    ],
    ids=range(13),
)
def test_licences_are_told_apart_and_a_changed_one_is_another(tmp_path, text, width, kind):
    licence = licence_of(checkpoint(tmp_path, text, width=width))
    assert licence.kind == kind
    assert licence.needs_acceptance == (kind in ("Kimi K3", "other"))


def test_our_own_licence_is_known_for_what_it_is(tmp_path):
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert licence_of(checkpoint(tmp_path, text)).kind == "Apache-2.0"
    assert licence_of(checkpoint(tmp_path, text + "\nAppendix B: pay us. " * 200)).kind == "other"


def test_nothing_is_loaded_before_the_licence_was_accepted(tmp_path, monkeypatch):
    folder = checkpoint(tmp_path, KIMI)
    with pytest.raises(PermissionDenied, match="not been accepted") as caught:
        require_for_model(f"kimi:{folder}")
    assert "licence accept" in caught.value.hint
    monkeypatch.setenv(ACCEPT, "1")
    require_licence(folder)
    monkeypatch.delenv(ACCEPT)
    with pytest.raises(PermissionDenied):
        require_licence(folder)  # what a run of CI accepted was not remembered
    require_licence(folder, accept=True)
    require_for_model(f"kimi:{folder}")


def test_other_models_and_free_checkpoints_are_not_asked_about(tmp_path):
    require_for_model("embedded")
    require_for_model("openai:kimi")
    require_for_model(f"kimi:{tmp_path / 'absent'}")
    require_licence(checkpoint(tmp_path, MIT))
    assert LicenceStore().accepted() == {}


def run(*arguments: str):
    return CliRunner().invoke(cli, ["licence", *arguments])


def test_an_acceptance_holds_for_one_text_wherever_it_lies_until_it_is_withdrawn(tmp_path):
    folder, copy = checkpoint(tmp_path, KIMI), checkpoint(tmp_path, KIMI, name="copy")
    refused = run("accept", str(folder))
    assert isinstance(refused.exception, PermissionDenied)  # nobody is there to ask
    assert "accepted" in run("accept", str(folder), "--yes").output
    require_licence(copy)
    assert "accepted before" in run("accept", str(copy)).output
    (copy / "LICENSE").write_text(KIMI + "One more condition.")
    with pytest.raises(PermissionDenied):
        require_licence(copy)
    assert "1 taken back" in run("withdraw", "--all").output
    with pytest.raises(PermissionDenied):
        require_licence(folder)
    assert "nothing had been accepted" in run("withdraw", str(folder)).output


def test_the_terms_and_the_questions_that_matter_are_shown(tmp_path):
    for shown in (run(), run("show"), run("show", str(checkpoint(tmp_path, KIMI)))):
        assert shown.exit_code == 0
        for words in (
            "20 million US dollars",
            "100 million",
            "separate agreement",
            "no legal advice",
            "internal",
        ):
            assert words in shown.output
    assert "not accepted" in run("show", str(tmp_path / "model")).output
    assert "Stand-in text" in run("show", str(tmp_path / "model"), "--text").output
    assert "Nothing has to be accepted" in run("show", str(checkpoint(tmp_path, MIT))).output


def test_a_store_that_cannot_be_read_is_neither_yes_nor_no(tmp_path):
    folder = checkpoint(tmp_path, KIMI)
    LicenceStore().path.write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        require_licence(folder)
    assert LicenceStore().path.read_text() == "{"
