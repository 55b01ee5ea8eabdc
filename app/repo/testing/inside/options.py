"""Which of a project's own default pytest options are kept.

Kept: everything that decides what is collected or how it is imported (``-m``, ``-k``,
``--import-mode``, ``-p``, ``--strict-markers``, ...). Dropped: coverage, parallelism,
early stop, re-runs, ordering, verbosity, reports written to files and debuggers.
"""

from __future__ import annotations

from typing import List, Sequence

# Option -> whether it takes a value in the next word when written without "=".
_DROPPED = {
    "--cov": False,
    "--cov-report": True,
    "--cov-config": True,
    "--cov-fail-under": True,
    "--cov-context": True,
    "--cov-append": False,
    "--cov-branch": False,
    "--cov-reset": False,
    "--no-cov": False,
    "--no-cov-on-fail": False,
    "--cov-precision": True,
    "-n": True,
    "--numprocesses": True,
    "--maxprocesses": True,
    "--dist": True,
    "--tx": True,
    "--maxschedchunk": True,
    "-x": False,
    "--exitfirst": False,
    "--maxfail": True,
    "--stepwise": False,
    "--sw": False,
    "--stepwise-skip": False,
    "--sw-skip": False,
    "--lf": False,
    "--last-failed": False,
    "--ff": False,
    "--failed-first": False,
    "--nf": False,
    "--new-first": False,
    "--reruns": True,
    "--reruns-delay": True,
    "--only-rerun": True,
    "--force-flaky": False,
    "--random-order": False,
    "--random-order-bucket": True,
    "--random-order-seed": True,
    "--randomly-seed": True,
    "--randomly-dont-reorganize": False,
    "--randomly-dont-reset-seed": False,
    "--random": False,
    "--verbose": False,
    "--quiet": False,
    "--verbosity": True,
    "--no-header": False,
    "--no-summary": False,
    "--durations": True,
    "--durations-min": True,
    "--junitxml": True,
    "--junit-xml": True,
    "--junit-prefix": True,
    "--html": True,
    "--self-contained-html": False,
    "--css": True,
    "--json-report": False,
    "--json-report-file": True,
    "--report-log": True,
    "--alluredir": True,
    "--clean-alluredir": False,
    "--pdb": False,
    "--pdbcls": True,
    "--trace": False,
    "--color": True,
    "--tb": True,
    "--show-capture": True,
    "--showlocals": False,
    "-l": False,
    "--cache-clear": False,
    "--cache-show": True,
    "--pastebin": True,
    "--looponfail": False,
    "-f": False,
    "--setup-show": False,
    "--benchmark-only": False,
    "--benchmark-autosave": False,
    "--benchmark-json": True,
    "--basetemp": True,
    "--timeout": True,
    "--timeout-method": True,
    "--timeout_method": True,
    "--session-timeout": True,
}
_OPTIONAL_VALUE = ("--cov", "--cov-reset")
_DROPPED_PLUGINS = ("pytest_cov", "pytest-cov", "cov", "xdist", "xdist.plugin", "randomly", "random_order")


def kept_options(words: Sequence[str]) -> List[str]:
    """The project's default options without those that break determinism, speed or reporting."""
    kept: List[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        name, equals, _value = word.partition("=")
        if word == "--":
            kept.extend(words[index - 1 :])
            break
        if name in _DROPPED and word.startswith("-"):
            optional = name in _OPTIONAL_VALUE and index < len(words) and not words[index].startswith("-")
            if not equals and (_DROPPED[name] or optional):
                index += 1
        elif word == "-p" and index < len(words):
            plugin = words[index]
            index += 1
            if plugin not in _DROPPED_PLUGINS:
                kept.extend(["-p", plugin])
        elif (word.startswith("-p") and word[2:] in _DROPPED_PLUGINS) or _is_short_noise(word):
            continue
        else:
            kept.append(word)
    return kept


def _is_short_noise(word: str) -> bool:
    """``-vv``, ``-q``, ``-n4``, ``-ra``, ``-vx`` ..."""
    if len(word) < 2 or word[0] != "-" or word[1] == "-":
        return False
    if word[1] == "r" and len(word) > 2:
        return True
    if word[1] == "n" and (word[2:].isdigit() or word[2:] in ("auto", "logical")):
        return True
    return all(letter in "vqxlf" for letter in word[1:])
