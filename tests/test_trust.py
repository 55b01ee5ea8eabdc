"""Trust is remembered per repository and per content, and nothing else counts as trust."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from whimbrel.app.trust import TrustStore, is_trusted, remember_trust
from whimbrel.sandbox.base.errors import ConfigError


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "state" / "trust.json")


def test_nothing_is_trusted_until_the_person_says_so(store, tmp_path):
    assert not store.is_trusted(tmp_path, "abc")
    store.remember(tmp_path, "abc")
    assert TrustStore(store.path).is_trusted(tmp_path, "abc")


def test_other_content_and_other_repositories_stay_untrusted(store, tmp_path):
    store.remember(tmp_path, "abc")
    assert not store.is_trusted(tmp_path, "abd")
    assert not store.is_trusted(tmp_path / "other", "abc")


def test_an_empty_digest_is_never_trusted(store, tmp_path):
    store.remember(tmp_path, "")
    assert not store.is_trusted(tmp_path, "")


def test_trust_can_be_taken_back(store, tmp_path):
    store.remember(tmp_path, "abc")
    assert store.forget(tmp_path)
    assert not store.is_trusted(tmp_path, "abc")
    assert not store.forget(tmp_path)


def test_the_store_is_private_to_the_person(store, tmp_path):
    store.remember(tmp_path, "abc")
    assert store.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 99, "repositories": {}}', '{"format": 1}'])
def test_a_damaged_store_is_an_error_and_not_an_answer(store, tmp_path, content):
    store.path.parent.mkdir()
    store.path.write_text(content)
    with pytest.raises(ConfigError, match="cannot be read"):
        store.is_trusted(tmp_path, "abc")


def test_decisions_of_parallel_runs_are_all_kept(store, tmp_path):
    code = (
        "import sys; from pathlib import Path; from whimbrel.app.trust import TrustStore\n"
        "store = TrustStore(Path(sys.argv[1]))\n"
        "for n in range(10): store.remember(Path(sys.argv[2]) / str(n), sys.argv[3])\n"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", code, str(store.path), str(tmp_path), digest])
        for digest in ("aa", "bb", "cc")
    ]
    assert [run.wait() for run in runs] == [0, 0, 0]
    kept = json.loads(store.path.read_text())["repositories"]
    assert len(kept) == 10
    assert all(sorted(digests) == ["aa", "bb", "cc"] for digests in kept.values())


def test_editing_the_recipe_takes_the_trust_away(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    repository = tmp_path / "project"
    repository.mkdir()
    (repository / "whimbrel.toml").write_text('test = "pytest"\n')
    assert not is_trusted(repository)
    remember_trust(repository)
    assert is_trusted(repository)
    (repository / "whimbrel.toml").write_text('test = "pytest; rm -rf ~"\n')
    assert not is_trusted(repository)
