"""Path rules that hold for every tool and for the shell alike.

A pattern without a slash matches a name at any depth; with one it starts at the repository's
top (``**`` spans folders); ``/...`` and ``~/...`` are places outside. A pattern that matches a
folder covers all of it. Letter case never matters: file systems differ, rules must not.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from ...sandbox.base.errors import ToolError

Access = Literal["read", "write"]
Outcome = Literal["allow", "ask", "deny"]
_MAX_SNIFF = 64 << 10


@dataclass(frozen=True)
class PathRule:
    """What a pattern means for reading or writing."""

    outcome: Outcome
    access: Access
    pattern: str
    reason: str = ""
    content: str = ""
    """Regular expression: holds only for existing files that match it (keys, tokens)."""
    default: bool = False
    """One of ours: a rule of the person beats it."""

    @property
    def why(self) -> str:
        return self.reason or f"a rule says {self.outcome} for {self.access} {self.pattern}"


_KEY = r"-----BEGIN [A-Z ]*PRIVATE KEY|PuTTY-User-Key-File"
_SECRETS = "it may hold credentials"


def _reads(*patterns: str, content: str = "", reason: str = _SECRETS) -> list[PathRule]:
    return [PathRule("deny", "read", each, reason, content, True) for each in patterns]


def _writes(outcome: Outcome, reason: str, *patterns: str) -> list[PathRule]:
    return [PathRule(outcome, "write", each, reason, default=True) for each in patterns]


DEFAULTS: tuple[PathRule, ...] = (
    *[
        PathRule("allow", "read", f".env.{kind}", "it is an example", default=True)
        for kind in ("example", "sample", "template", "dist", "defaults", "tpl")
    ],
    *_reads(".env", ".env.*", ".envrc", ".netrc", "_netrc", ".git-credentials", ".pgpass", ".htpasswd"),
    *_reads("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", reason="it is a private key"),
    *_reads("id_ed25519", "id_ed25519_sk", reason="it is a private key"),
    *_reads("*.pem", "*.key", "*.ppk", content=_KEY, reason="it holds a private key"),
    *_reads(".npmrc", ".yarnrc", ".yarnrc.yml", content=r"(?i)_auth|authtoken|_password"),
    *_reads(".pypirc", content=r"(?i)password|token"),
    *_reads(".aws/credentials", ".docker/config.json", ".kube/config", ".ssh", ".gnupg"),
    *_reads("~/.aws", "~/.docker/config.json", "~/.kube", "~/.config/gh", "~/.config/gcloud", "~/.gnupg"),
    *_reads("/etc/shadow", "/etc/gshadow", "/proc/*/environ"),
    *_reads(".git/config", content=r"(?i)://[^/\s:@]+:[^/\s@]+@|extraheader"),
    *_writes("deny", "git's own files are off limits", ".git"),
    *_writes("deny", "it configures this program", ".whimbrel"),
    *_writes("ask", "it says what runs in CI", ".github/workflows", ".github/actions", ".gitlab-ci.yml",
             ".circleci", "azure-pipelines.yml", "Jenkinsfile", ".travis.yml", "bitbucket-pipelines.yml"),
    *_writes("ask", "it is a git hook", ".husky", ".githooks", ".pre-commit-config.yaml"),
)  # fmt: skip
"""What holds when nobody said anything."""


@dataclass(frozen=True)
class PathPolicy:
    """Who may touch which path. Deny beats ask beats allow; the person's rules beat the defaults."""

    rules: tuple[PathRule, ...] = DEFAULTS
    root: Path | None = None
    """The copy of the repository, to follow links and to look into files."""
    tops: tuple[str, ...] = ()
    """Absolute paths under which the repository's top is also known (the sandbox's view)."""
    home: str = field(default_factory=lambda: os.path.expanduser("~"))  # noqa: PTH111 - as text
    masked: tuple[str, ...] = ()
    """Denied files that the sandbox shows as empty: real contents cannot be had there."""
    exposed: tuple[str, ...] = ()
    """Denied files that lie open in the copy: commands that walk through folders would show them."""
    in_history: tuple[str, ...] = ()
    """Denied files that git's history holds."""
    differing: tuple[str, ...] = ()
    """Those of them that are not as git has them, so that a difference shows what git has."""

    def with_rules(self, rules: Iterable[PathRule]) -> PathPolicy:
        """The same with more rules."""
        return replace(self, rules=(*rules, *self.rules))

    def at(self, root: Path, tops: Sequence[str] = ()) -> PathPolicy:
        """The same for a repository's copy that lies in ``root`` and is also known under ``tops``."""
        return replace(self, root=root, tops=(*tops, str(root)))

    def readable(self, path: str) -> bool:
        """Whether a tool may show what is in it. Asking counts as no: a tool cannot ask."""
        return self.decide(path, "read")[0] == "allow"

    def filtered(self, paths: Iterable[str]) -> list[str]:
        """Those of many regular files (relative, no links) that are readable."""
        return [path for path in paths if self._decide(path, "read")[0] == "allow"]

    def pathspecs(self) -> list[str]:
        """For a git tool, behind ``--``: everything but what may not be read, in any commit."""
        specs = ["."]
        allowed = {rule.pattern for rule in self.rules if rule.access == "read" and rule.outcome == "allow"}
        for rule in self.rules:
            outside = rule.pattern.startswith(("/", "~"))
            if rule.access != "read" or rule.outcome == "allow" or rule.content or outside:
                continue
            pattern = rule.pattern.removesuffix("/**").strip("/")
            if pattern in allowed:
                continue
            anywhere = "/" not in pattern or pattern.startswith(".")
            place = f"**/{pattern}" if anywhere else pattern
            specs += [f":(exclude,icase,glob,top){place}", f":(exclude,icase,glob,top){place}/**"]
        return specs

    def writable(self, path: str) -> bool:
        """Whether a tool may change it. What is asked about was asked before the tool began."""
        return self.decide(path, "write")[0] != "deny" and self.decide(path, "read")[0] != "deny"

    def require_readable(self, path: str) -> None:
        """Raises ToolError with the reason when it is not readable."""
        outcome, reason = self.decide(path, "read")
        if outcome == "deny":
            raise ToolError(f"{path} may not be read: {reason}", hint="go on without it")

    def require_writable(self, path: str) -> None:
        """Raises ToolError with the reason when it is not writable."""
        for access in ("read", "write"):
            outcome, reason = self.decide(path, access)
            if outcome == "deny":
                raise ToolError(f"{path} may not be changed: {reason}", hint="go on without it")

    def decide(self, path: str, access: Access) -> tuple[Outcome, str]:
        """The strictest answer over the path as written and the file it leads to, with the reason."""
        verdict: tuple[Outcome, str] = ("allow", "")
        for name in self._names(path):
            found = self._decide(name, access)
            if _RANK[found[0]] > _RANK[verdict[0]]:
                verdict = found
        return verdict

    def _decide(self, name: str, access: Access) -> tuple[Outcome, str]:
        folded = _folded(name)
        if not _any_of(self.rules, access, self.home).search(folded):
            return "allow", ""
        matching = [
            rule
            for rule in self.rules
            if rule.access == access and _compiled(rule.pattern, self.home).search(folded)
        ]
        for own in (False, True):
            mine = [rule for rule in matching if rule.default is own]
            if own:
                # Among the defaults the first that fits decides: examples come before `.env.*`.
                mine = [rule for rule in mine if self._content_fits(rule, name)][:1]
            for outcome in ("deny", "ask", "allow"):
                rule = next((rule for rule in mine if rule.outcome == outcome), None)
                if rule is not None:
                    return rule.outcome, rule.why
        return "allow", ""

    def allowed_by_rule(self, path: str, access: Access) -> str:
        """The reason of a person's rule that allows it, or empty."""
        for rule in self.rules:
            fits = rule.access == access and rule.outcome == "allow" and not rule.default
            if fits and matches(rule.pattern, self._expanded(path), self.home):
                return rule.why
        return ""

    def _expanded(self, path: str) -> str:
        text = path
        if text == "~" or text.startswith("~/"):
            text = self.home + text[1:]
        text = os.path.normpath(text) if text else "."
        text = "/" + text.lstrip("/") if text.startswith("/") else text
        for top in self.tops:
            if _folded(text) == _folded(top):
                return "."
            if _folded(text).startswith(_folded(top) + "/"):
                return text[len(top) + 1 :]
        return text

    def _names(self, path: str) -> list[str]:
        """The path as written, and what it leads to through links."""
        text = self._expanded(path)
        names = [text]
        if self.root is not None and "\0" not in text:
            real = os.path.realpath(text if text.startswith("/") else self.root / text)
            top = os.path.realpath(self.root)
            inside = real == top or real.startswith(top + "/")
            names.append(os.path.relpath(real, top) if inside else real)
        return list(dict.fromkeys(names))

    def _content_fits(self, rule: PathRule, name: str) -> bool:
        if not rule.content:
            return True
        if self.root is None:
            return False
        try:
            place = Path(name) if name.startswith("/") else self.root / name
            if not place.is_file():
                return False
            with place.open("rb") as stream:
                head = stream.read(_MAX_SNIFF)
        except (OSError, ValueError):
            return False
        return re.search(rule.content, head.decode("latin-1")) is not None


_RANK = {"allow": 0, "ask": 1, "deny": 2}


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", text).casefold()


def matches(pattern: str, path: str, home: str = "") -> bool:
    """Whether a rule's pattern covers a normalised path (relative to the top, or absolute)."""
    return _compiled(pattern, home).search(_folded(path)) is not None


@lru_cache(maxsize=64)
def _any_of(rules: tuple[PathRule, ...], access: Access, home: str) -> re.Pattern[str]:
    """What hardly any path matches: looked at first, because searches ask about every file."""
    anchored: dict[bool, list[str]] = {True: [], False: []}
    for rule in rules:
        if rule.access == access:
            from_top, body = _body(rule.pattern, home)
            anchored[from_top].append(body)
    groups = [f"{_LEADS[top]}(?:{'|'.join(bodies)})(?:/|$)" for top, bodies in anchored.items() if bodies]
    return re.compile("|".join(groups) or "(?!)", re.DOTALL)


@lru_cache(maxsize=512)
def _compiled(pattern: str, home: str) -> re.Pattern[str]:
    from_top, body = _body(pattern, home)
    return re.compile(f"{_LEADS[from_top]}{body}(?:/|$)", re.DOTALL)


_LEADS = {True: "^", False: "(?:^|/)"}


def _body(pattern: str, home: str) -> tuple[bool, str]:
    """Whether a pattern starts at the top, and its regular expression."""
    text = pattern.rstrip("/") or "/"
    if len(text) > 3 and text.endswith("/**"):
        text = text[:-3]
    if text == "~" or text.startswith("~/"):
        text = home + text[1:]
    text = text.removeprefix("./")
    # `.ssh/config` and the like may lie in any folder.
    anywhere = "/" not in text or (text.startswith(".") and not text.startswith(".."))
    return not anywhere, _regex(_folded(text))


def _regex(glob: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(glob):
        if glob.startswith("**/", at):
            out.append("(?:.*/)?")
            at += 3
        elif glob.startswith("**", at):
            out.append(".*")
            at += 2
        elif glob[at] == "*":
            out.append("[^/]*")
            at += 1
        elif glob[at] == "?":
            out.append("[^/]")
            at += 1
        elif glob[at] == "[" and (close := glob.find("]", at + 2)) > 0:
            inside = glob[at + 1 : close].replace("\\", "\\\\").replace("[", "\\[")
            out.append("[" + ("^" + inside[1:] if inside[:1] in "!^" else inside) + "]")
            at = close + 1
        else:
            out.append(re.escape(glob[at]))
            at += 1
    return "".join(out)
