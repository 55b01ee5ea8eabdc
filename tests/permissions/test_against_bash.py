"""What bash really runs is seen: every line here runs ``mark``, and none may pass without it being noticed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from whimbrel.app.permissions.judge import Situation, Verdict, judge_command
from whimbrel.app.permissions.paths import PathPolicy
from whimbrel.app.permissions.rules import Decision, Rule

ALLOWED = (  # noqa: SIM905
    "echo cat true false : test [ wait printf read let cd ls declare export unset mapfile trap exec eval git awk"
    " sed compgen complete set find env timeout nice"
).split()
LINES = [
    "cat <<E\\OF\nx\nEOF\nmark", "cat <<'E'OF\nx\nEOF\nmark", 'cat <<"E F"\nx\nE F\nmark', "cat <<E\nx\nE \nE\nmark",
    "cat << E; mark\nx\nE", "cat <<A <<B\na\nA\nb\nB\nmark", "cat <<E\n$(mark)\nE", "cat <<E\n`mark`\nE",
    "cat <<E\n${x:-$(mark)}\nE", "cat <<E >/dev/null && mark\nx\nE", "cat <<E || true; mark\nx\nE", "cat <<$E\nx\n$E\nmark",
    "cat <<'E'\n'\nE\nmark", "cat <<E\n\"\nE\nmark", "cat <<E#\nx\nE#\nmark", "echo $((x<<E)); mark\nE", "((x<<2)); mark",
    "echo a#b; mark", "echo a #b\nmark", "echo $#; mark", "echo ${x##*#}; mark", 'echo "a\\"; mark; \\""; mark',
    "echo 'a\\'; mark", "echo $'a\\'b'; mark", "echo \\'; mark; echo \\'", "echo \\\\; mark", "case a in a) mark;; esac",
    "f() ( mark ); f", "ls() { mark; }; ls", "! mark", "coproc mark; wait", "(( 1 )) && mark", "[[ a =~ ^(a)$ ]] && mark",
    '[ "$(mark)" ]', "echo $(( $(mark; echo 1) ))", "echo $[ $(mark; echo 1) ]", "a=($(mark))", "a[$(mark; echo 1)]=x",
    "declare x=$(mark)", "export X=`mark`", "cat < <(mark)", "while read l; do mark; done <<< x",
    "for ((i=0;i<1;i++)); do mark; done", "until mark; do break; done", ": |& mark", "eval 'ma''rk'", "ma\\\nrk", "m\\ark",
    "$'\\155ark'", '$"mark"', "x=mark; $x", "x=ark; m$x", "{mark,x}", "command mark", "exec -a x mark", "find . -maxdepth 0 -exec mark \\;",
    "bash --norc -c mark", "echo mark | sh", "sh <<< mark", "sh <<E\nmark\nE", "trap mark EXIT", "trap 'mark' 0; :",
    "shopt -s expand_aliases\nalias m=mark\nm", ". <(echo mark)", "awk 'BEGIN{system(\"mark\")}'", "sed -n '1e mark' one",
    "git -c alias.x='!mark' x", "mapfile -C mark -c 1 x <<< a", "test -v 'a[$(mark)]'", "printf -v 'a[$(mark)]' x",
    "read 'a[$(mark)]' <<< x", "let 'a[$(mark)]=1'", "x='$(mark)'; echo ${x@P}", "PS4='$(mark)'; set -x; :",
    "complete -C mark x; compgen -C mark x", "hash -p $PWD/bin/mark ls; ls", "env -S mark", "env - PATH=$PATH MARKFILE=$MARKFILE mark",
    "./bin/mark", 'echo "${x:=$(mark)}"', "echo {a,$(mark)}", "> /dev/null mark", "cat one\nmark", "timeout -k 1 5 mark",
]  # fmt: skip


def test_nothing_bash_runs_goes_unnoticed(tmp_path: Path) -> None:
    mark = tmp_path / "bin/mark"
    mark.parent.mkdir()
    mark.write_text('#!/bin/sh\n: > "$MARKFILE"\n')
    mark.chmod(0o755)
    mark_file = tmp_path / "marked"
    (tmp_path / "one").write_text("1\n")
    env = {"PATH": f"{mark.parent}:{os.environ['PATH']}", "MARKFILE": str(mark_file), "HOME": str(tmp_path)}
    rules = [Rule(Decision.ALLOW, tool="bash", command=f"{name}*") for name in ALLOWED]
    asking = Situation(Verdict(Decision.ASK, "no rule"), doubts_matter=True)
    ran: list[str] = []
    for line in LINES:
        mark_file.unlink(missing_ok=True)
        subprocess.run(
            ["bash", "-c", line],
            env=env,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
        )
        if mark_file.exists():
            ran.append(line)
            decision = judge_command(line, rules, PathPolicy(), asking).verdict.decision
            assert decision is not Decision.ALLOW, line
    assert len(ran) > 0.9 * len(LINES), [line for line in LINES if line not in ran]
