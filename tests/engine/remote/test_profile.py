"""What is known about endpoints survives between runs, and nothing bad does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from whimbrel.engine.remote.profile import EXPIRES_S, MAX_BYTES, Fact, Profile, ProfileStore

URL, MODEL = "http://127.0.0.1:1/v1", "org/näme\ud800"


def made(at: float = 1000.0) -> Profile:
    facts = {"context_window": Fact(value=4096, how="listed"), "images": Fact(how="not asked")}
    return Profile(base_url=URL, model="m", dialect="vllm", made_at=at, complete=True, facts=facts)


def test_a_profile_comes_back_as_it_was_until_it_is_too_old(tmp_path: Path) -> None:
    now = 1000.0
    store = ProfileStore(tmp_path / "new" / "folder", clock=lambda: now)
    assert store.load(URL, "m") is None
    assert store.save(made())
    assert store.load(URL, "m") == made()
    assert store.load(URL, "other") is None and store.load(f"{URL}x", "m") is None
    now += EXPIRES_S + 1
    assert store.load(URL, "m") is None
    now = 0.0  # a clock that was set back
    assert store.load(URL, "m") is None
    assert [path.stat().st_mode & 0o077 for path in (tmp_path / "new" / "folder").iterdir()] == [0]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: b"\xff\x00" * 50,
        lambda data: b"[]",
        lambda data: data.replace(b'"version": 1', b'"version": 99'),
        lambda data: data.replace(b'"how"', b'"huh"'),
        lambda data: data.replace(b'"m"', b'"other"'),
        lambda data: b" " * (MAX_BYTES + 1) + data,
    ],
)
def test_a_damaged_file_is_as_good_as_none_and_is_replaced(tmp_path: Path, damage) -> None:
    store = ProfileStore(tmp_path, clock=lambda: 1000.0)
    store.save(made())
    path = store.path(URL, "m")
    path.write_bytes(damage(path.read_bytes()))
    assert store.load(URL, "m") is None
    assert store.save(made()) and store.load(URL, "m") == made()


def test_a_folder_in_the_files_place_or_an_odd_name_breaks_nothing(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.path(URL, "m").mkdir()
    assert store.load(URL, "m") is None and not store.save(made())
    assert store.load(URL, MODEL) is None
    assert os.listdir(tmp_path) == [store.path(URL, "m").name]
