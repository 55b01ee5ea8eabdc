"""Which files a simple command names, in any spelling, and whether it may read or change them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from .paths import Access, Outcome, PathPolicy, matches
from .programs import base_name, git_subcommand, only_reads, walks_folders
from .shell import Command
from .words import Hole, Word, decode

_SPLIT = re.compile(r"[=:@,]")
_IN_CODE = re.compile(r"[^\w./~*?\[\]@+-]+")
_MAX_CANDIDATES = 5000
_SAMPLES = ("local", "production", "x")


def judge_paths(
    command: Command, policy: PathPolicy, folders: Sequence[str] = ()
) -> tuple[Outcome, str] | None:
    """The strictest path rule the command runs into, with its reason; None when there is none.

    ``folders`` are those the whole command line goes to (``cd``), where relative names may start.
    """
    worst: tuple[Outcome, str] | None = None
    for word, access in touched(command):
        for candidate in candidates(word):
            found = _decide(candidate, access, policy, folders)
            if found is not None and (worst is None or (worst[0] == "ask" and found[0] == "deny")):
                worst = found
    return worst


def touched(command: Command) -> Iterator[tuple[Word, Access]]:
    """Words with what happens to the files they may name."""
    reads = only_reads(command.words)
    for redirect in command.redirects:
        yield redirect.target, "write" if redirect.writes else "read"
        if redirect.writes:
            # Writing is a way to read (>>, or a link made before), and what is secret stays untouched.
            yield redirect.target, "read"
    for word in (*command.words, *command.mentions):
        if word.prefix.startswith(("--exclude", "--ignore")):
            continue
        yield word, "read"
        if not reads:
            yield word, "write"
    for _, value in command.assignments:
        yield value, "read"
    for pattern in _found_by_name(command):
        yield decode(pattern, {}), "read"
    if command.stdin and (not reads or "xargs" in command.via):
        yield Word(command.stdin, (command.stdin,)), "read"


def _found_by_name(command: Command) -> list[str]:
    """The name patterns of a ``find`` that does something with what it finds."""
    words = [word.literal or "" for word in command.words]
    if base_name(words[0] if words else "") != "find":
        return []
    return [words[at + 1] for at, word in enumerate(words[:-1]) if word in _NAME_TESTS]


_NAME_TESTS = ("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename")


def folders_of(commands: Sequence[Command]) -> tuple[str, ...]:
    """Folders that commands of the line move to; relative names may start in any of them."""
    found = [""]
    for command in commands:
        words = [word.literal for word in command.words]
        base = base_name(command.name or "")
        if base in ("cd", "pushd"):
            targets = [word for word in words[1:] if word and not word.startswith("-")]
        else:
            targets = [
                words[at + 1]
                for at, word in enumerate(words[:-1])
                if word in ("-C", "--directory", "--chdir", "--work-tree", "-D")
            ]
        for target in targets:
            if target:
                found += [os.path.join(start, target) for start in list(found)][: 16 - len(found)]  # noqa: PTH118
    return tuple(dict.fromkeys(found))


def candidates(word: Word) -> Iterator[Word]:
    """The word, and pieces of it that may be a path: ``--file=X``, ``-fX``, ``if=X``, ``HEAD:X``, ``@X``."""
    count = 0
    for variant in [*_without_braces(word), *_written_out(word)]:
        text = variant.literal
        if text is None:
            yield variant
            for piece in _dynamic_pieces(variant):
                yield piece
            continue
        pieces = [text]
        if text.startswith("-") and not text.startswith("--") and len(text) > 2:
            pieces.append(text[2:])
        at = 0
        for mark in _SPLIT.finditer(text):
            pieces += [text[mark.end() :], text[at : mark.start()]]
            at = mark.end()
        pieces.append(text[at:])
        if re.search(r"[\s'\"()]", text):
            # Code, or a list: every run of characters that may be a path.
            pieces += _IN_CODE.split(text)
            pieces += _joined_strings(text)
        for piece in dict.fromkeys(pieces):
            if piece and count < _MAX_CANDIDATES:
                count += 1
                yield Word(piece, (piece,))


def _joined_strings(text: str) -> list[str]:
    """``'.e' + 'nv'`` and ``"a" "b"`` in code, put together."""
    joined = re.sub(r"(['\"])\s*[+.]?\s*(['\"])", "", text)
    return _IN_CODE.split(joined) if joined != text else []


def _dynamic_pieces(word: Word) -> Iterator[Word]:
    """The part behind the last ``=`` or ``:`` of a word with holes."""
    for at in range(len(word.parts) - 1, -1, -1):
        part = word.parts[at]
        if isinstance(part, str) and (marks := list(_SPLIT.finditer(part))):
            rest = part[marks[-1].end() :]
            yield Word(word.raw, ((rest,) if rest else ()) + word.parts[at + 1 :])
            return


def _written_out(word: Word) -> list[Word]:
    """What ``${x:-text}`` gives where ``x`` is not set (or is, for ``+``), and the words of an array."""
    if word.raw.startswith("(") and word.raw.endswith(")"):
        return [decode(text, {}) for text in word.raw[1:-1].split()]
    text = _DEFAULT.sub(r"\1", word.raw) if word.dynamic else word.raw
    return [decode(text, {})] if text != word.raw else []


_DEFAULT = re.compile(r"\$\{\w+(?:\[[^\]{}]*\])?:?[-=+]([^{}]*)\}")


def _without_braces(word: Word) -> list[Word]:
    """``{a,b}`` written out, as far as that is plain text."""
    if not re.search(r"\{[^{}$`'\"\s]*,[^{}$`'\"\s]*\}", word.raw) or not word.dynamic:
        return [word]
    texts = [word.raw]
    for _ in range(6):
        match = next((found for text in texts if (found := _BRACE.search(text))), None)
        if match is None or len(texts) > 64:
            break
        texts = [
            text[: found.start()] + option + text[found.end() :]
            for text in texts
            if (found := _BRACE.search(text))
            for option in found[1].split(",")
        ] + [text for text in texts if not _BRACE.search(text)]
    return [word, *(decode(text, {}) for text in texts if "$" not in text and "`" not in text)]


_BRACE = re.compile(r"\{([^{}$`'\"\s]*,[^{}$`'\"\s]*)\}")


def _decide(
    word: Word, access: Access, policy: PathPolicy, folders: Sequence[str]
) -> tuple[Outcome, str] | None:
    text = word.literal
    if text is not None:
        if len(text) > 4096 or "\0" in text:
            return None
        for folder in folders or ("",):
            place = text if text.startswith(("/", "~")) or not folder else f"{folder}/{text}"
            outcome, reason = policy.decide(place, access)
            if outcome != "allow":
                return outcome, f"{text}: {reason}"
        return None
    pattern = _pattern(word)
    if pattern is None:
        return None
    literal = "".join(part for part in word.parts if isinstance(part, str))
    for name, default in _possible(policy, access):
        hidden = name.rsplit("/", 1)[-1].startswith(".")
        if default and not hidden and (len(literal) < 3 or ("/" in name and "/" not in literal)):
            # `ls *` is not a way to a key that hardly ever lies here; what does lie here is `masked`.
            continue
        # With a rule for `.env`, `a/.e*` may be a/.env: only the last names are compared.
        if pattern.fullmatch(name.rsplit("/", 1)[-1].casefold()):
            outcome, reason = policy.decide(name, access)
            if outcome != "allow":
                return outcome, f"{word.shown} may be {name}: {reason}"
    return None


def _pattern(word: Word) -> re.Pattern[str] | None:
    """The last name of a word with holes as a regular expression; None when nothing of it is known."""
    tokens: list[str | Hole] = []
    for part in word.parts:
        if isinstance(part, Hole):
            tokens.append(part)
            continue
        tail = part.rsplit("/", 1)
        if len(tail) > 1:
            tokens.clear()
        tokens.append(tail[-1])
    known = "".join(token for token in tokens if isinstance(token, str))
    if not known and Hole.ANY in tokens:
        return None
    return _as_regex(tuple(tokens))


@lru_cache(maxsize=256)
def _as_regex(tokens: tuple[str | Hole, ...]) -> re.Pattern[str] | None:
    texts = {Hole.ANY: ".*", Hole.STAR: ".*", Hole.ONE: "."}
    body = "".join(re.escape(each.casefold()) if isinstance(each, str) else texts[each] for each in tokens)
    # A leading wildcard of the shell does not match a hidden name.
    hidden = r"(?!\.)" if tokens and tokens[0] in (Hole.STAR, Hole.ONE) else ""
    return re.compile(hidden + body, re.DOTALL)


def _possible(policy: PathPolicy, access: Access) -> Iterator[tuple[str, bool]]:
    """Names that a wildcard could turn out to be and that a rule is about, and whether it is a default."""
    yield from ((name, False) for name in policy.masked)
    for rule in policy.rules:
        if rule.access != access or rule.outcome == "allow":
            continue
        pattern = rule.pattern
        if not re.search(r"[*?\[]", pattern):
            yield pattern, rule.default
        elif not rule.content and pattern.startswith("."):
            for sample in _SAMPLES:
                yield pattern.replace("**", sample).replace("*", sample).replace("?", "x"), rule.default
        elif not rule.content and not rule.default:
            yield pattern.replace("**/", "").replace("**", "x").replace("*", "x").replace("?", "x"), False


def reads_unnamed(command: Command, policy: PathPolicy) -> str:
    """A file that may not be read and that the command would come across on its way, or empty."""
    if not policy.exposed or not walks_folders(command.words):
        return ""
    left_out = [
        word.shown.partition("=")[2]
        for word in command.words
        if word.prefix.startswith(("--exclude=", "--exclude-dir=", "--ignore="))
    ]
    names = _found_by_name(command)
    for path in policy.exposed:
        if names and not any(matches(name.rsplit("/", 1)[-1], path) for name in names):
            continue
        if not any(matches(pattern, path) for pattern in left_out):
            return path
    return ""


def git_shows_history(command: Command, policy: PathPolicy) -> bool:
    """Whether it prints file contents out of git's store without saying of which files."""
    if base_name(command.name or "") != "git":
        return False
    subcommand, at = git_subcommand(command.words)
    rest = [word.literal or "" for word in command.words[at + 1 :]]
    if subcommand == "diff" and all(text.startswith("-") and text != "--no-index" for text in rest):
        # Against the index: what did not change is not shown.
        return bool(policy.differing)
    if "--" in rest and rest.index("--") < len(rest) - 1:
        return False
    if subcommand == "log":
        return any(re.match(r"-[a-zA-Z]*p|--patch|-S|-G|--cc|-c$|-u|-U|-L", text) for text in rest)
    if subcommand in ("show", "diff", "whatchanged", "stash", "diff-tree", "format-patch"):
        return not any(":" in text for text in rest) and not any(
            text in ("--stat", "--name-only", "--name-status", "--shortstat", "-s", "--no-patch", "list")
            for text in rest
        )
    return subcommand in ("grep", "archive", "cat-file", "fast-export", "bundle", "blame-tree", "unpack-file")
