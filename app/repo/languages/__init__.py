"""Which language a file is in, and its grammar and definition query, loaded when first needed.

Each grammar is a wheel of its own. A wheel that is missing costs its language only:
``load`` then says so in one line instead of failing the caller.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ....sandbox.base.errors import ToolError

if TYPE_CHECKING:
    from tree_sitter import Language, Query

__all__ = ["LANGUAGES", "Grammar", "GrammarMissing", "LanguageInfo", "detect", "load"]


@dataclass(frozen=True)
class LanguageInfo:
    """How one language is recognised and read; plain data."""

    name: str
    module: str
    factory: str
    queries: tuple[str, ...]
    suffixes: tuple[str, ...]
    separator: str = "."
    """Between a container and its member in qualified names."""

    @property
    def distribution(self) -> str:
        """The name under which the grammar is installed."""
        return self.module.replace("_", "-")


_ALL = (
    LanguageInfo("python", "tree_sitter_python", "language", ("python",), (".py", ".pyi", ".pyw")),
    LanguageInfo(
        "javascript",
        "tree_sitter_javascript",
        "language",
        ("javascript", "ecmascript"),
        (".js", ".mjs", ".cjs", ".jsx"),
    ),
    LanguageInfo(
        "typescript",
        "tree_sitter_typescript",
        "language_typescript",
        ("javascript", "typescript"),
        (".ts", ".mts", ".cts"),
    ),
    LanguageInfo("tsx", "tree_sitter_typescript", "language_tsx", ("javascript", "typescript"), (".tsx",)),
    LanguageInfo("go", "tree_sitter_go", "language", ("go",), (".go",)),
    LanguageInfo("rust", "tree_sitter_rust", "language", ("rust",), (".rs",), "::"),
    LanguageInfo("java", "tree_sitter_java", "language", ("java",), (".java",)),
    LanguageInfo("c", "tree_sitter_c", "language", ("c",), (".c", ".h")),
    LanguageInfo(
        "cpp",
        "tree_sitter_cpp",
        "language",
        ("c", "cpp"),
        (".cc", ".cpp", ".cxx", ".c++", ".hh", ".hpp", ".hxx", ".h++", ".ipp", ".inl"),
        "::",
    ),
    LanguageInfo("ruby", "tree_sitter_ruby", "language", ("ruby",), (".rb", ".rake", ".gemspec"), "::"),
    LanguageInfo("php", "tree_sitter_php", "language_php", ("php",), (".php", ".phtml"), "::"),
    LanguageInfo("c_sharp", "tree_sitter_c_sharp", "language", ("c_sharp",), (".cs",)),
)

LANGUAGES: dict[str, LanguageInfo] = {info.name: info for info in _ALL}
_BY_SUFFIX = {suffix: info for info in _ALL for suffix in info.suffixes}
_BY_INTERPRETER = {
    "python": "python",
    "pypy": "python",
    "node": "javascript",
    "deno": "typescript",
    "ruby": "ruby",
    "php": "php",
}
_CPP_IN_HEADER = (b"class ", b"namespace ", b"template", b"::", b"public:", b"private:", b"constexpr")


class GrammarMissing(ToolError):
    """The grammar wheel of a language is not installed or does not fit; the text says what to install."""


@dataclass(frozen=True)
class Grammar:
    """A loaded grammar with the compiled query of its definitions."""

    info: LanguageInfo
    language: Language
    definitions: Query


def detect(path: str, data: bytes = b"") -> LanguageInfo | None:
    """The language of ``path`` by suffix, by content for ``.h``, by ``#!`` line without a suffix; or None."""
    suffix = PurePosixPath(path).suffix
    # ``.C`` and ``.H`` are C++ by old Unix custom; all other suffixes are case-blind.
    if suffix in (".C", ".H"):
        return LANGUAGES["cpp"]
    info = _BY_SUFFIX.get(suffix.lower())
    if info is not None:
        if suffix.lower() == ".h" and any(mark in data for mark in _CPP_IN_HEADER):
            return LANGUAGES["cpp"]
        return info
    if not suffix and data.startswith(b"#!"):
        words = data[:200].splitlines()[0][2:].decode("utf-8", "replace").split()
        names = [PurePosixPath(word).name for word in words if not word.startswith("-")]
        for name in names[:2]:
            key = _BY_INTERPRETER.get(name.rstrip("0123456789."))
            if key is not None:
                return LANGUAGES[key]
    return None


@cache
def load(name: str) -> Grammar:
    """The grammar of language ``name`` (a key of LANGUAGES), imported on first use.

    Raises:
        GrammarMissing: its wheel is absent, or of a version whose node types the query does not know.
    """
    info = LANGUAGES[name]
    try:
        from tree_sitter import Language, Query

        module = importlib.import_module(info.module)
    except ImportError as error:
        raise GrammarMissing(
            f"no symbols for {name}: the grammar is not installed",
            hint=f"pip install {info.distribution}",
        ) from error
    try:
        capsule: object = getattr(module, info.factory)()
        language = Language(capsule)
        package = resources.files(__package__ or "whimbrel.app.repo.languages")
        source = "\n".join(
            package.joinpath(f"{query}.scm").read_text(encoding="utf-8") for query in info.queries
        )
        return Grammar(info, language, Query(language, source))
    except (AttributeError, ValueError) as error:
        detail = " ".join(str(error).split())
        raise GrammarMissing(
            f"no symbols for {name}: the installed {info.distribution} does not fit ({detail})"
        ) from error
