"""What is set where, which layer wins, and a file that is never damaged by changing it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from whimbrel.app.config import load_settings
from whimbrel.app.config.editing import backup_of, restore_backup, set_value, unset_value
from whimbrel.app.config.layers import user_file
from whimbrel.app.config.model import schema
from whimbrel.app.trust import remember_trust
from whimbrel.sandbox.base.errors import ConfigError, UsageError

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file, in a folder of this test."""
    for name in list(os.environ):
        if name.startswith("WHIMBREL_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("WHIMBREL_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("WHIMBREL_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "config").mkdir()
    return user_file()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with settings of its own."""
    top = tmp_path / "project"
    (top / ".git").mkdir(parents=True)
    (top / ".whimbrel").mkdir()
    (top / ".whimbrel/config.toml").write_text("[limits]\nsteps = 30\n[sandbox]\nkind = 'docker'\n")
    return top


def test_each_layer_wins_over_the_one_before_and_each_value_knows_where_it_comes_from(
    config: Path, project: Path
) -> None:
    config.write_text(
        "[limits]\nsteps = 20\ntokens = 5\ntime = '15m'\n[effort]\ndefault = 'low'\n"
        "[profiles.big.model]\nname = 'vllm:big'\n[profiles.big.limits]\nsteps = 40\n"
        "[profiles.big.model.tasks.planning]\neffort = 'max'\n"
    )
    remember_trust(project)
    loaded = load_settings(project / ".whimbrel", environ={})
    assert (loaded.settings.limits.steps, loaded.settings.limits.time) == (30, 900.0)
    loaded = load_settings(project, profile="big", environ={})
    assert (loaded.settings.limits.steps, loaded.settings.model.name) == (40, "vllm:big")
    assert loaded.settings.model.tasks.planning.effort == "max"
    environ = {
        "WHIMBREL_LIMITS__STEPS": "50",
        "WHIMBREL_SANDBOX__NETWORK": "true",
        "WHIMBREL_STATE_DIR": "/x",
    }
    loaded = load_settings(project, profile="big", environ=environ)
    assert loaded.settings.limits.steps == 50 and loaded.settings.sandbox.network is True
    loaded = load_settings(project, profile="big", environ=environ, overrides=["limits.steps=60"])
    assert loaded.settings.limits.steps == 60 and loaded.settings.limits.tokens == 5
    keys = ("limits.steps", "sandbox.network", "model.name", "sandbox.kind", "limits.tokens", "hook.apply")
    assert [loaded.origin(key) for key in keys] == [
        "-c", "environment WHIMBREL_SANDBOX__NETWORK", "profile big",
        f"project {project / '.whimbrel/config.toml'}", f"user {config}", "default",
    ]  # fmt: skip


def test_a_repositorys_settings_count_only_when_exactly_they_are_trusted(project: Path) -> None:
    loaded = load_settings(project, environ={})
    assert loaded.settings.limits.steps == 100
    assert any("found and ignored: not trusted" in note for note in loaded.notes)
    assert load_settings(project, environ={}, trust=True).settings.limits.steps == 30
    remember_trust(project)
    assert load_settings(project, environ={}).settings.limits.steps == 30
    with (project / ".whimbrel/config.toml").open("a") as file:
        file.write("network = true\n")
    assert load_settings(project, environ={}).settings.limits.steps == 100, "changed since it was trusted"


def test_settings_that_lead_out_of_the_repository_are_refused(project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.toml").write_text("[limits]\nsteps = 3\n")
    (project / ".whimbrel/config.toml").unlink()
    (project / ".whimbrel/config.toml").symlink_to(tmp_path / "elsewhere.toml")
    for trust in (True, False):
        with pytest.raises(ConfigError, match="outside the repository"):
            load_settings(project, environ={}, trust=trust)


def test_rules_of_all_layers_count_together(config: Path, project: Path) -> None:
    config.write_text("[[permissions.rules]]\ndecision = 'deny'\ntool = 'bash'\n")
    (project / ".whimbrel/config.toml").write_text("[[permissions.rules]]\ndecision = 'allow'\ntool = '*'\n")
    rules = load_settings(project, environ={}, trust=True).settings.permissions.rules
    assert [rule["decision"] for rule in rules] == ["deny", "allow"]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("a=b=c", "there is no setting a"),
        ("=x", "not of the form"),
        ("limits.steps", "not of the form"),
        ("=", "not of the form"),
        ("limits.steps=b=c", "limits.steps"),
        ("limits.steps=", "limits.steps"),
        ("limits.steps=0", "limits.steps"),
        ("limits.steps=true", "limits.steps"),
        ("limits.time=soon", "not a duration"),
        ("limits.cost_usd=nan", "limits.cost_usd"),
        ("limits=3", "there is no setting limits"),
        ("limits.step=3", "there is no setting limits.step"),
        ("model.name=", "model.name"),
        ("sandbox.kind=nonsense", "sandbox.kind"),
        ("permissions.rules=x", "permissions.rules"),
        ("a b.c=1", "is not a key"),
        ("profiles.x.nothing=1", "there is no setting"),
    ],
)
def test_an_override_that_is_not_right_is_a_usage_error(override: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        load_settings(environ={}, overrides=[override])
    assert said in raised.value.one_line()


def test_everything_behind_the_first_equals_sign_is_the_value_where_it_fits() -> None:
    settings = load_settings(
        environ={},
        overrides=[
            "model.name=vllm:a=b@http://h/v1?x=y", "sessions.mirror=s3://b/p=1", "limits.time=90s",
            'prices."vllm:x.y@http://h/v1".input=0.5', 'mcp.files.command=["a", "b=c"]',
            "sandbox.network=TRUE", "limits.steps=7", "limits.steps=8",
        ],
    ).settings  # fmt: skip
    assert settings.model.name == "vllm:a=b@http://h/v1?x=y" and settings.sessions.mirror == "s3://b/p=1"
    assert settings.price_of("vllm:x.y@http://h/v1") == (0.5, None)
    assert settings.mcp == {"files": {"command": ["a", "b=c"]}}
    assert (settings.sandbox.network, settings.limits.steps, settings.limits.time) == (True, 8, 90.0)


def test_unknown_keys_are_kept_and_told_once_wherever_they_stand(config: Path) -> None:
    config.write_text("colour = 1\n[limits]\nstepz = 1\n[future.thing]\nx = 2\n[profiles.p.hook]\ny = 1\n")
    loaded = load_settings(environ={"WHIMBREL_LIMITS__STEPZ": "1"})
    told = [note.partition("unknown key ")[2].split()[0] for note in loaded.notes if "unknown key" in note]
    assert told == ["colour", "future", "limits.stepz", "profiles.p.hook.y"]
    assert any(note.startswith("WHIMBREL_LIMITS__STEPZ is set, but") for note in loaded.notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[limits\n", "line 1, column 8"),
        (b"a = 1\n\n  b = = 2\n", "line 3, column 7"),
        (b"a = 1\nb = \xff\n", "line 2"),
        (b"[limits]\nsteps = 'many'\n", "limits.steps"),
        (b"limits = 3\n", "limits"),
        (b"x = 1\ny = '''", "line 2, column 8"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_place(config: Path, text: bytes, said: str) -> None:
    config.write_bytes(text)
    with pytest.raises(ConfigError) as raised:
        load_settings(environ={})
    line = raised.value.one_line()
    assert str(config) in line and said in line and "\n" not in line


def test_setting_a_value_leaves_comments_order_and_unknown_keys_as_they_are(config: Path) -> None:
    text = (
        "# mine\n[future]\nkeep = [1,   2] # odd   spacing\n\n[limits] # how far\r\n"
        "steps   = 20 # few\r\ntokens = 5\r\n\n[[permissions.rules]]\ndecision = 'deny'\n"
    )
    config.write_bytes(text.encode())
    config.chmod(0o640)
    set_value(config, "limits.steps", "21")
    assert config.read_bytes().decode() == text.replace("steps   = 20", "steps   = 21")
    assert backup_of(config).read_bytes().decode() == text
    assert config.stat().st_mode & 0o777 == 0o640
    set_value(config, "profiles.big.model.name", "vllm:big")
    set_value(config, "limits.time", "2h")
    assert (
        text.replace("steps   = 20", "steps   = 21").splitlines()[:7] == config.read_text().splitlines()[:7]
    )
    assert load_settings(profile="big", environ={}).settings.model.name == "vllm:big"
    assert unset_value(config, "future.keep") and not unset_value(config, "future.keep")
    assert "odd" not in config.read_text() and "# few" in config.read_text()


def test_a_malformed_file_is_not_touched_and_the_backup_brings_the_last_good_one_back(config: Path) -> None:
    set_value(config, "limits.steps", "20")
    set_value(config, "limits.steps", "30")
    config.write_text("[limits\nsteps = 30")
    with pytest.raises(ConfigError, match="line 1"):
        set_value(config, "limits.steps", "40")
    assert config.read_text() == "[limits\nsteps = 30"
    replaced = restore_backup(config)
    assert load_settings(environ={}).settings.limits.steps == 20
    assert replaced.read_text() == "[limits\nsteps = 30"
    with pytest.raises(UsageError):
        set_value(config, "limits.steps", "none")


WRITER = """
import sys
from pathlib import Path
from whimbrel.app.config.editing import set_value
for n in range(1, 100000):
    set_value(Path(sys.argv[1]), "limits.steps", str(1 + n % 9999))
    print(n, flush=True)
"""


def test_a_kill_while_saving_and_two_writers_at_once_lose_nothing(config: Path) -> None:
    config.write_text("# kept\n[limits]\nsteps = 1\n[future]\nx = 1\n")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(config)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in writers:
        assert process.stdout is not None and [process.stdout.readline() for _ in range(15)][-1] == "15\n"
    for process in writers:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert "# kept" in config.read_text() and load_settings(environ={}).settings.model_extra == {
        "future": {"x": 1}
    }
    set_value(config, "limits.steps", "7")
    assert load_settings(environ={}).settings.limits.steps == 7


def test_runs_side_by_side_do_not_share_settings(config: Path) -> None:
    config.write_text("[limits]\ntokens = 9\n")

    def one(number: int) -> tuple[int, int | None]:
        settings = load_settings(environ={}, overrides=[f"limits.steps={number}"]).settings
        return settings.limits.steps, settings.limits.tokens

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(1, 41))) == [(number, 9) for number in range(1, 41)]
    settings = load_settings(environ={}).settings
    with pytest.raises(ValueError, match="frozen"):
        settings.limits.steps = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_the_published_schema_is_the_programs_own() -> None:
    published = json.loads((ROOT / "docs/config.schema.json").read_text())
    assert published == schema(), "make it anew: whimbrel config schema > docs/config.schema.json"
