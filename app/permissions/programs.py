"""What well-known programs do with their options: run others, write files, or only read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .words import Hole, Word

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "rbash", "mksh", "fish"})

INTERPRETERS: dict[str, frozenset[str]] = {
    # program: options whose argument is a program of its own
    "python": frozenset({"-c"}),
    "pypy": frozenset({"-c"}),
    "perl": frozenset({"-e", "-E"}),
    "ruby": frozenset({"-e"}),
    "node": frozenset({"-e", "--eval", "-p", "--print"}),
    "deno": frozenset({"eval"}),
    "bun": frozenset({"-e", "--eval"}),
    "php": frozenset({"-r"}),
    "lua": frozenset({"-e"}),
    "osascript": frozenset({"-e"}),
    "Rscript": frozenset({"-e"}),
    "tclsh": frozenset(),
}

READERS = frozenset(
    [
        "[",
        "basename",
        "cat",
        "cksum",
        "cmp",
        "column",
        "comm",
        "cut",
        "date",
        "df",
        "diff",
        "dirname",
        "du",
        "echo",
        "egrep",
        "expr",
        "false",
        "fgrep",
        "file",
        "find",
        "fold",
        "grep",
        "head",
        "hexdump",
        "id",
        "jq",
        "ls",
        "md5sum",
        "nl",
        "od",
        "paste",
        "printenv",
        "printf",
        "pwd",
        "readlink",
        "realpath",
        "rg",
        "seq",
        "sha1sum",
        "sha256sum",
        "sha512sum",
        "sleep",
        "sort",
        "stat",
        "strings",
        "sum",
        "tac",
        "tail",
        "test",
        "tr",
        "tree",
        "true",
        "tsort",
        "type",
        "uname",
        "uniq",
        "wc",
        "which",
        "whoami",
        "xxd",
        "yes",
        ":",
        "cd",
        "test",
    ]
)
"""Only read, unless an option of ``risky_option`` or a redirection says otherwise."""

GIT_READERS = frozenset(
    [
        "annotate",
        "blame",
        "cat-file",
        "check-ignore",
        "count-objects",
        "describe",
        "diff",
        "diff-tree",
        "for-each-ref",
        "grep",
        "log",
        "ls-files",
        "ls-tree",
        "merge-base",
        "name-rev",
        "rev-list",
        "rev-parse",
        "shortlog",
        "show",
        "show-ref",
        "status",
        "version",
        "whatchanged",
    ]
)

_RISKY: dict[str, tuple[str, ...]] = {
    # Options that write a file, run a program or load code. A final "=" means: with a value attached, too.
    "git": (
        "-c", "-C", "--config-env", "--exec-path", "--git-dir", "--work-tree", "--output", "-o", "--ext-diff",
        "--textconv", "--open-files-in-pager", "-O", "--upload-pack", "--receive-pack", "--exec", "-x",
        "--paginate", "-p!", "--namespace", "--super-prefix", "--no-index", "--contents",
    ),
    "find": (
        "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls",
        "-files0-from",
    ),
    "sort": ("-o", "--output", "--compress-program", "-T", "--temporary-directory", "--files0-from"),
    "sed": ("-i", "--in-place", "-n!", "-f", "--file", "-s!"),
    "awk": ("-f", "--file", "-i", "--include", "-l", "--load", "-e", "--source"),
    "tar": (
        "--to-command", "-I", "--use-compress-program", "--checkpoint-action", "--rsh-command", "-F",
        "--info-script", "--new-volume-script",
    ),
    "rg": ("--pre", "--hostname-bin", "--search-zip!"),
    "curl": (
        "-o", "-O", "--output", "--remote-name", "--remote-name-all", "-K", "--config", "--output-dir", "-D",
        "--dump-header", "-c", "--cookie-jar", "--trace", "--trace-ascii", "--stderr", "--proto", "-T",
        "--upload-file", "-F", "--form", "-d", "--data", "--data-binary", "--data-raw", "--data-urlencode",
        "--engine", "--etag-save", "--hsts", "--alt-svc",
    ),
    "wget": (
        "-O", "--output-document", "-o", "-P", "--use-askpass", "--post-file", "--post-data", "-e",
        "--config",
    ),
    "tree": ("-o",), "uniq": (), "date": ("-s", "--set"), "file": ("-C", "-m"), "diff": ("--to-file",),
    "xxd": ("-r",), "jq": ("-f", "--from-file", "-L"), "man": ("-P", "--pager", "-H"),
    "less": ("-o", "-O", "-k"),
    "ssh": ("-o", "-F", "-D", "-L", "-R"), "rsync": ("-e", "--rsh", "--rsync-path"),
    "make": ("-f", "--eval", "-C"),
    "pytest": ("-c", "-p", "-o", "--override-ini", "--rootdir", "--confcutdir", "--basetemp"),
    "pip": (
        "--target", "-t", "--prefix", "--root", "--index-url", "-i", "--extra-index-url", "--global-option",
    ),
    "npm": ("--prefix", "--script-shell"), "go": ("-exec", "-toolexec", "-o", "-modfile", "-overlay"),
    "cargo": ("--config", "-Z"), "docker": (), "split": ("--filter",), "zip": ("-TT", "--unzip-command"),
    "vim": ("-c", "-S", "--cmd"), "emacs": ("--eval", "-l"), "gdb": ("-ex", "-x"), "ldd": (), "env": ("-S",),
}  # fmt: skip

_DANGEROUS_ENVIRONMENT = re.compile(
    r"^(?:LD_.*|DYLD_.*|GIT_.*|BASH_ENV|BASH_FUNC_.*|ENV|IFS|PATH|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|CDPATH"
    r"|PYTHONSTARTUP|PYTHONHOME|PYTHONINSPECT|PYTHONBREAKPOINT|PYTHONUSERBASE|PYTHONEXECUTABLE|PERL5OPT|PERL5LIB"
    r"|PERL5DB|RUBYOPT|RUBYLIB|NODE_OPTIONS|NODE_PATH|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS"
    r"|MAVEN_OPTS|EDITOR|VISUAL|PAGER|MANPAGER|LESSOPEN|LESSCLOSE|SSH_ASKPASS|SUDO_ASKPASS|HOME|XDG_CONFIG_.*"
    r"|SHELL|TERMCAP|TERMINFO|GCONV_PATH|LOCPATH|NLSPATH|MAKEFLAGS|GNUMAKEFLAGS|RUSTC_WRAPPER|RUSTC|CC|CXX"
    r"|CARGO_.*|GOFLAGS|PIP_.*|NPM_CONFIG_.*|RIPGREP_CONFIG_PATH|TAR_OPTIONS|http_proxy|https_proxy|all_proxy)$",
    re.IGNORECASE,
)

CHANGES_MEANING = frozenset(
    {"alias", "unalias", "shopt", "enable", "hash", "complete", "set", "function", "trap"}
)
"""After these, words need not mean what they say."""

EVALUATES = frozenset(
    {"test", "[", "let", "printf", "unset", "read", "declare", "typeset", "local", "export", "readonly", "mapfile"}
)
"""Builtins that evaluate subscripts: ``test -v 'a[$(x)]'`` runs x."""

_RUNS: dict[str, tuple[str, ...]] = {
    # Of the risky options those that run something.
    "git": ("-c", "--config-env", "--exec-path", "--ext-diff", "--upload-pack", "--receive-pack", "--exec", "-x"),
    "tar": (
        "--to-command", "-I", "--use-compress-program", "--checkpoint-action", "--rsh-command", "-F",
        "--info-script", "--new-volume-script",
    ),
    "rg": ("--pre", "--hostname-bin"), "sort": ("--compress-program",), "man": ("-P", "--pager", "-H"),
    "rsync": ("-e", "--rsh", "--rsync-path"), "make": ("--eval",), "npm": ("--script-shell",),
    "go": ("-exec", "-toolexec"), "zip": ("-TT", "--unzip-command"), "vim": ("-c", "-S", "--cmd"),
    "emacs": ("--eval", "-l"), "gdb": ("-ex", "-x"), "split": ("--filter",),
}  # fmt: skip

RUNS_FILES = frozenset({"source", "."})


def dangerous_variable(name: str) -> bool:
    """Whether setting it changes which programs run or what code they load."""
    return bool(_DANGEROUS_ENVIRONMENT.match(name))


def base_name(name: str) -> str:
    """``python3.12`` -> ``python``, ``/usr/bin/git`` -> ``git``, ``gsed`` and ``gawk`` -> what they are."""
    base = name.rsplit("/", 1)[-1]
    base = re.sub(r"(?<=[a-z])[-.]?\d[\d.]*$", "", base) if base not in ("sha1sum", "md5sum") else base
    return {
        "gawk": "awk",
        "mawk": "awk",
        "nawk": "awk",
        "gsed": "sed",
        "gfind": "find",
        "nodejs": "node",
    }.get(base, base)


def interpreter_of(name: str) -> str | None:
    base = base_name(name)
    return base if base in INTERPRETERS or base in ("awk", "sed") else None


def git_subcommand(words: Sequence[Word]) -> tuple[str, int]:
    """The subcommand of a git command line and its index; ("", 0) when it cannot be told."""
    at = 1
    while at < len(words):
        text = words[at].literal
        if text is None:
            return "", 0
        if not text.startswith("-"):
            return text, at
        at += 2 if text in ("-c", "-C", "--git-dir", "--work-tree", "--namespace", "--exec-path") else 1
    return "", 0


def risky_options(name: str, words: Sequence[Word]) -> list[str]:
    """Options of this command line that write, run or load something; also words that may turn out as one."""
    base = base_name(name)
    options = _RISKY.get(base)
    found: list[str] = []
    if options is None:
        return found
    wanted = [each for each in options if not each.endswith("!")]
    for word in words[1:]:
        text = word.literal if word.literal is not None else word.prefix
        if text == "--":
            break
        if not text and word.parts and word.parts[0] in (Hole.STAR, Hole.ONE):
            found.append(f"{word.shown} (a file may be named like an option)")
            continue
        if not text.startswith("-"):
            continue
        if any(_is_option(text, option) for option in wanted):
            found.append(text)
    if base == "sed" and any(_sed_acts(word) for word in words[1:]):
        found.append("a script that writes or runs")
    if base == "awk" and any(_awk_acts(word) for word in words[1:]):
        found.append("a script that writes or runs")
    return found


def runs_others(words: Sequence[Word]) -> list[str]:
    """Options and scripts of this command line that run another program."""
    base = base_name(words[0].literal or "") if words else ""
    options = _RUNS.get(base, ())
    found: list[str] = []
    for word in words[1:]:
        text = word.literal if word.literal is not None else word.prefix
        if text.startswith("-") and any(_is_option(text, option) for option in options):
            found.append(text)
    if base in ("awk", "sed") and any(
        _awk_acts(word) if base == "awk" else _sed_acts(word) for word in words[1:] if word.literal is not None
    ):
        found.append(f"a script of {base}")
    return found


def walks_folders(words: Sequence[Word]) -> bool:
    """Whether it reads whole folders, files that nobody named among them."""
    base = base_name(words[0].literal or "") if words else ""
    flags = [word.literal or word.prefix for word in words[1:]]
    short = "".join(flag[1:] for flag in flags if flag.startswith("-") and not flag.startswith("--"))
    if base in ("grep", "egrep", "fgrep", "zgrep", "diff", "cp", "scp", "zip"):
        letters = {"cp": "rRa", "zip": "r", "diff": "r", "scp": "r"}.get(base, "rR")
        return any(letter in short for letter in letters) or any(
            flag in ("--recursive", "--dereference-recursive", "--archive") for flag in flags
        )
    if base in ("rg", "ag", "ack"):
        return any(flag in ("--hidden", "--unrestricted", "--no-ignore") for flag in flags) or (
            "u" in short or "." in short or "a" in short
        )
    if base in ("tar", "bsdtar"):
        return "c" in (short or (flags[0] if flags else "")) or "--create" in flags
    return base in ("rsync", "ripgrep-all", "7z")


def _is_option(text: str, option: str) -> bool:
    if option.startswith("--"):
        given = text.split("=", 1)[0]
        # Long options may be shortened: --outp=f is --output=f.
        return given == option or (len(given) > 3 and option.startswith(given))
    if len(option) > 2:
        return text == option
    if text.startswith("--"):
        return False
    # Short options may stand together and carry their value: -ofile, -ro file.
    return option[1] in re.split(r"[^A-Za-z]", text[1:])[0]


def _sed_acts(word: Word) -> bool:
    text = word.literal
    if text is None:
        return not word.prefix.startswith("-")
    if text.startswith("-"):
        return False
    return bool(
        re.search(r"(?:^|[;{}\n\d$/])\s*[ewW](?:\s|$)|[^\w\s][gpiImM\d]*[ew][gpiImM\d]*(?:\s|;|}|$)", text)
    )


def _awk_acts(word: Word) -> bool:
    text = word.literal
    return text is None or bool(re.search(r"system\s*\(|getline|[|>]|@load|@include|close\s*\(", text))


def only_reads(words: Sequence[Word]) -> bool:
    """Whether the command is known to change nothing and to run nothing else."""
    name = words[0].literal if words else ""
    if name is None or "/" in name:
        return False
    if not name:
        return not words
    if name == "git":
        subcommand, _ = git_subcommand(words)
        known = subcommand in GIT_READERS or (subcommand, len(words)) in (("branch", 2), ("remote", 2))
        return known and not risky_options(name, words)
    if name in ("sed", "awk"):
        return not risky_options(name, words)
    if name == "uniq" and sum(not word.prefix.startswith("-") for word in words[1:]) > 1:
        return False
    return name in READERS and not risky_options(name, words)
