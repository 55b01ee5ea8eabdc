"""Folders of dead runs are swept; nothing else that lies in the same place is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from whimbrel.app.fix.rundir import RunDirectory, new_run_id, sweep_dead_runs
from whimbrel.app.paths import runs_dir
from whimbrel.app.trust import TrustStore
from whimbrel.sandbox.base.errors import ConfigError


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runs"
    monkeypatch.setenv("WHIMBREL_RUN_DIR", str(folder))
    return folder


def test_a_folder_for_runs_that_holds_other_things_too_keeps_them(place: Path):
    documents = place / "documents"
    documents.mkdir(parents=True)
    (documents / "thesis.txt").write_text("years of work\n")
    link = place / new_run_id()
    link.symlink_to(documents)
    old = time.time() - 86_400
    os.utime(documents, (old, old))
    assert sweep_dead_runs() == []
    assert (documents / "thesis.txt").read_text() == "years of work\n"
    assert sorted(entry.name for entry in documents.iterdir()) == ["thesis.txt"]


def test_a_dead_run_is_swept_and_a_living_one_is_not(place: Path):
    script = "import os\nfrom whimbrel.app.fix.rundir import *\nrun = RunDirectory.create(new_run_id())\nprint(run.run_id)\nos._exit(0)"
    dead = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip()
    living = RunDirectory.create(new_run_id())
    assert (place / dead).is_dir()
    assert sweep_dead_runs() == [dead]
    assert not (place / dead).exists() and living.root.is_dir()
    living.remove()


def test_trust_moves_with_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WHIMBREL_STATE_DIR", str(tmp_path / "state"))
    TrustStore().remember(tmp_path, "digest")
    assert (tmp_path / "state" / "trust.json").is_file()
    monkeypatch.setenv("WHIMBREL_STATE_DIR", str(tmp_path / "other"))
    assert not TrustStore().is_trusted(tmp_path, "digest")


def test_a_folder_for_runs_that_cannot_be_made_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WHIMBREL_RUN_DIR", str(tmp_path / "file" / "runs"))
    with pytest.raises(ConfigError, match="cannot create"):
        runs_dir()
