"""Commands inside commands: env, sudo, xargs, sh -c, find -exec and the like, taken off recursively."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from .programs import (
    CHANGES_MEANING,
    EVALUATES,
    INTERPRETERS,
    RUNS_FILES,
    SHELLS,
    base_name,
    dangerous_variable,
    git_subcommand,
    interpreter_of,
    runs_others,
)
from .shell import MAX_COMMANDS, MAX_DEPTH, Command, Danger, Parsed, also_named, parse
from .words import ANYTHING, Word

_TAKES_VALUE: dict[str, str] = {
    # wrapper: its one-letter options that take a value (long ones are given as --x=y or listed below)
    "env": "uC",
    "sudo": "ugpCcrtThD",
    "doas": "uC",
    "nohup": "",
    "timeout": "ks",
    "time": "fo",
    "nice": "n",
    "ionice": "cnpPu",
    "chrt": "TPD",
    "taskset": "",
    "stdbuf": "ioe",
    "setsid": "",
    "xargs": "adEIiLlnPs",
    "exec": "a",
    "command": "",
    "builtin": "",
    "coproc": "",
    "watch": "n",
    "strace": "abeEIoOpPsSuX",
    "ltrace": "aeloxpu",
    "unshare": "",
    "busybox": "",
    "toybox": "",
    "noglob": "",
    "nocorrect": "",
    "caffeinate": "tw",
    "catchsegv": "",
    "script": "cEIOoTtB",
    "flock": "wEc",
    "unbuffer": "",
    "winpty": "",
    "gosu": "",
    "fakeroot": "ls",
}
_LONG_VALUES = frozenset(
    [
        "--unset",
        "--chdir",
        "--user",
        "--group",
        "--prompt",
        "--host",
        "--kill-after",
        "--signal",
        "--adjustment",
        "--input",
        "--output",
        "--error",
        "--class",
        "--classdata",
        "--max-args",
        "--max-procs",
        "--max-lines",
        "--max-chars",
        "--delimiter",
        "--arg-file",
        "--replace",
        "--interval",
        "--format",
        "--timeout",
        "--wait",
        "--chroot",
        "--close-from",
        "--role",
        "--type",
        "--command-timeout",
    ]
)
_SUBSCRIPT = re.compile(r"\[.*(?:\$\(|`)|\$\(.*\]")
_POSITIONALS = {"timeout": 1, "taskset": 1, "chrt": 1, "flock": 1, "gosu": 1}
_DOUBTFUL = {
    "sudo": "it runs as another user",
    "doas": "it runs as another user",
    "gosu": "it runs as another user",
    "strace": "it may write a trace",
    "script": "it writes a transcript",
    "unshare": "it changes namespaces",
}
_REMOTE = frozenset(
    [
        "ssh",
        "docker",
        "podman",
        "kubectl",
        "chroot",
        "nsenter",
        "su",
        "runuser",
        "parallel",
        "at",
        "batch",
        "crontab",
        "systemd-run",
        "screen",
        "tmux",
        "expect",
        "entr",
        "socat",
        "bwrap",
    ]
)


def commands_of(text: str) -> Parsed:
    """Every simple command a command line can run, wrappers taken off; problems where that is not known."""
    out = Parsed(text)
    _into(out, text, 0, ())
    return out


def _into(out: Parsed, text: str, depth: int, via: tuple[str, ...], doubts: tuple[str, ...] = ()) -> None:
    if depth > MAX_DEPTH:
        out.problems.append(f"shells are nested more than {MAX_DEPTH} deep")
        return
    inner = parse(text)
    out.problems += inner.problems
    for command in inner.commands:
        if len(out.commands) > MAX_COMMANDS:
            out.problems.append(f"it runs more than {MAX_COMMANDS} commands")
            return
        _unwrap(out, replace(command, via=via, doubts=(*doubts, *command.doubts)), depth)


def _unwrap(out: Parsed, command: Command, depth: int) -> None:
    """Adds the command, or what it wraps."""
    for variable, value in command.assignments:
        why = Danger(f"setting {variable} can change what runs")
        if dangerous_variable(variable, value.literal) and why not in command.doubts:
            command = command.doubted(why)
    for redirect in command.redirects:
        if redirect.target.prefix.startswith(("/dev/tcp/", "/dev/udp/")):
            command = command.doubted(Danger("it opens a network connection"))
    if not command.words:
        out.commands.append(command)
        return
    name = command.name
    if name is None:
        word = command.words[0]
        out.problems.append(f"which program {word.shown} is, is only known when it runs")
        out.commands.append(command.doubted("its program is not known"))
        return
    base = base_name(name)
    if depth > MAX_DEPTH:
        out.problems.append(f"commands are nested more than {MAX_DEPTH} deep")
        return
    if name in EVALUATES and any(_SUBSCRIPT.search(word.literal or "") for word in command.words):
        out.problems.append(f"{name} evaluates a text that runs a command")
    if runners := runs_others(command.words):
        command = command.doubted(f"{runners[0]} can run something else")
    if base in SHELLS:
        _shell(out, command, depth)
    elif name == "eval":
        texts = [word.literal for word in command.words[1:]]
        _script(out, command, None if None in texts else " ".join(str(text) for text in texts), depth)
    elif name in RUNS_FILES:
        out.commands.append(command.doubted("it runs the commands in a file"))
    elif name == "trap":
        out.commands.append(command)
        if len(command.words) > 2:
            _script(out, replace(command, words=command.words[:1]), command.words[1].literal, depth)
    elif name in CHANGES_MEANING:
        out.commands.append(command.doubted(Danger(f"{name} can change what commands mean")))
        if name in ("alias", "enable", "hash") and len(command.words) > 1:
            out.problems.append(f"{name} can give commands another meaning")
    elif name in ("export", "declare", "typeset", "readonly", "local", "env") and _only_sets(command):
        out.commands.append(command)
    elif base == "find":
        out.commands.append(command)
        for part in _find_commands(command.words):
            _unwrap(out, replace(command, words=part, via=(*command.via, "find")), depth + 1)
    elif base == "git":
        out.commands.append(_git(out, command, depth))
    elif base in _TAKES_VALUE:
        _wrapper(out, command, base, depth)
    elif base in _REMOTE:
        out.commands.append(command.doubted(f"what {base} runs is not looked at"))
    elif base in INTERPRETERS and _runs_text(command.words, INTERPRETERS[base]):
        out.commands.append(command.doubted(f"it runs {interpreter_of(name)} code given on the command line"))
    elif base in INTERPRETERS and not any(not w.prefix.startswith("-") for w in command.words[1:]):
        informs = {"--version", "-V", "--help", "-h"} & {word.raw for word in command.words[1:]}
        out.commands.append(command if informs else command.doubted(f"{base} runs what it reads"))
    else:
        out.commands.append(command)


def _only_sets(command: Command) -> bool:
    return command.name != "env" or all("=" in (word.literal or "") for word in command.words[1:])


def _runs_text(words: Sequence[Word], options: Iterable[str]) -> bool:
    for word in words[1:]:
        text = word.literal or word.prefix
        if not text.startswith("-") and text not in options:
            return False
        for option in options:
            attached = len(option) == 2 and re.match(rf"-[A-Za-z]*{option[1]}", text)
            if text == option or text.startswith(f"{option}=") or attached:
                return True
    return False


def _shell(out: Parsed, command: Command, depth: int) -> None:
    """``bash -c TEXT``, ``bash FILE``, ``bash <<EOF``."""
    words = command.words
    for at, word in enumerate(words[1:], start=1):
        text = word.literal
        if text is None:
            out.commands.append(command.doubted("what the shell runs is not known"))
            return
        if re.match(r"^-[a-zA-Z]*c[a-zA-Z]*$", text):
            script = words[at + 1].literal if at + 1 < len(words) else None
            # bash -c 'echo $0' x: further options may stand between.
            given = replace(command, mentions=(*command.mentions, *words[at + 2 :]))
            _script(out, given, None if script is None or script.startswith("-") else script, depth)
            return
        if text in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
            out.commands.append(command.doubted(f"{text} changes what the shell does"))
            return
        if text == "-s" or text.startswith("-"):
            if text in ("--version", "--help"):
                out.commands.append(command)
                return
            continue
        out.commands.append(command.doubted("it runs the commands in a file"))
        return
    if command.stdin is None:
        out.commands.append(command.doubted("it runs what it reads"))
    else:
        _script(out, command, command.stdin, depth)


def _script(out: Parsed, command: Command, text: str | None, depth: int) -> None:
    name = command.name or ""
    if text is None:
        out.problems.append(f"what {name} runs is only known when it runs")
        out.commands.append(command.doubted(f"what {name} runs is not known"))
        return
    # Redirections and assignments of the outer command act as well.
    if command.redirects or command.assignments:
        out.commands.append(replace(command, words=()))
    before = len(out.commands)
    _into(out, text, depth + 1, (*command.via, name), command.doubts)
    also_named(out.commands, before, command.mentions)


def _wrapper(out: Parsed, command: Command, base: str, depth: int) -> None:
    words = list(command.words)
    at, doubts = 1, list(command.doubts)
    assigned = list(command.assignments)
    if base in _DOUBTFUL:
        doubts.append(Danger(_DOUBTFUL[base]))
    letters = _TAKES_VALUE[base]
    while at < len(words):
        text = words[at].literal
        if text is None:
            break
        if text == "--":
            at += 1
            break
        if base == "env" and (text.startswith(("-S", "--split-string", "-vS"))):
            out.problems.append("env -S splits a text into a command")
        if base in ("flock", "script") and text in ("-c", "--command"):
            script = words[at + 1].literal if at + 1 < len(words) else None
            _script(out, replace(command, doubts=tuple(doubts)), script, depth)
            return
        if base == "env" and text == "-":
            at += 1
        elif base in ("env", "sudo", "doas") and re.match(r"^[A-Za-z_]\w*=", text):
            name, _, value = text.partition("=")
            assigned.append((name, Word(value, (value,))))
            at += 1
        elif base == "command" and text in ("-v", "-V"):
            out.commands.append(replace(command, doubts=tuple(doubts)))
            return
        elif text.startswith("--"):
            at += 2 if text in _LONG_VALUES else 1
        elif text.startswith("-") and len(text) > 1:
            # An option letter with a value takes the next word when nothing is attached.
            value = next((place for place, letter in enumerate(text[1:], 1) if letter in letters), 0)
            at += 2 if value and value == len(text) - 1 else 1
        else:
            break
    at += _POSITIONALS.get(base, 0)
    rest = tuple(words[at:])
    if base == "xargs":
        rest = (*(rest or (Word("echo", ("echo",)),)), ANYTHING)
        doubts.append("xargs adds arguments that are not known")
        command = replace(command, mentions=(*command.mentions, *words[1:at]))
    if not rest:
        out.commands.append(replace(command, doubts=tuple(doubts)))
        return
    inner = replace(
        command,
        words=rest,
        doubts=tuple(doubts),
        assignments=tuple(assigned),
        via=(*command.via, base),
    )
    _unwrap(out, inner, depth + 1)


def _find_commands(words: Sequence[Word]) -> Iterable[tuple[Word, ...]]:
    at = 0
    while at < len(words):
        if words[at].literal in ("-exec", "-execdir", "-ok", "-okdir"):
            end = at + 1
            while end < len(words) and words[end].literal not in (";", "+"):
                end += 1
            inner = tuple(ANYTHING if "{}" in (word.literal or "") else word for word in words[at + 1 : end])
            if inner:
                yield inner
            at = end
        at += 1


def _git(out: Parsed, command: Command, depth: int) -> Command:
    subcommand, at = git_subcommand(command.words)
    if not subcommand:
        informs = [word.literal for word in command.words[1:]] in (["--version"], ["--help"], [])
        return command if informs else command.doubted("its subcommand is not known")
    rest: list[str] = [word.literal or "" for word in command.words[at + 1 :]]
    run: Callable[[str], None] = lambda text: _into(out, text, depth + 1, (*command.via, "git"))  # noqa: E731
    if subcommand == "bisect" and rest[:1] == ["run"]:
        _unwrap(out, replace(command, words=command.words[at + 2 :]), depth + 1)
    elif subcommand in ("rebase", "submodule", "filter-branch"):
        for place, text in enumerate(rest):
            if text in ("-x", "--exec", "foreach", "--tree-filter", "--index-filter") and place + 1 < len(
                rest
            ):
                run(rest[place + 1])
        return command.doubted(f"git {subcommand} can run other commands")
    elif subcommand == "config" and len([text for text in rest if not text.startswith("-")]) > 1:
        return command.doubted("git config can change what git runs")
    elif subcommand.startswith("!") or not re.fullmatch(r"[a-z][a-z0-9-]*", subcommand):
        return command.doubted("its subcommand is not known")
    return command
