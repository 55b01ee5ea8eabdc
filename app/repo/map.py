"""A map of a repository: its most important definitions, within a number of tokens.

Files that use a name point to the files that define it; PageRank over that graph, started
from the files and names at hand (failing tests, traces, the issue), says which
definitions matter. The same files and seeds give the same map.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...sandbox.workspace.names import is_test_path
from .tags import FileTags, Tag

_DAMPING = 0.85
_ROUNDS = 25
_COMMON = 20
"""A name that more files define than this tells nothing."""
_LEAST_NAME = 3
_MENTIONED = 10.0
_BYTES_PER_TOKEN = 3.0
_MAX_LINE = 140
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")


@dataclass(frozen=True)
class RankedMap:
    """The map as text, and all files from the most to the least important."""

    text: str
    files: tuple[str, ...]
    """Files of which something is in the text, in its order."""
    ranking: tuple[str, ...]
    """Every file, most important first."""


def build_map(
    tags: Sequence[FileTags],
    *,
    seeds: Mapping[str, float],
    text: str = "",
    most_tokens: int,
) -> RankedMap:
    """Ranks and renders.

    Args:
        seeds: files to start from with their weights; empty: every file alike.
        text: of the issue; names of definitions in it count more.
        most_tokens: of the rendered text, by a conservative estimate.
    """
    mentioned = frozenset(_WORD.findall(text))
    edges, definers = _graph(tags, mentioned)
    rank = _page_rank([each.path for each in tags], edges, seeds)
    weights = _symbol_weights(tags, edges, rank, definers, mentioned)
    ranking = tuple(
        sorted((each.path for each in tags), key=lambda path: (-seeds.get(path, 0.0), -rank[path], path))
    )
    text_of, files = _render(tags, weights, rank, int(most_tokens * _BYTES_PER_TOKEN))
    return RankedMap(text_of, files, ranking)


_Edges = dict[str, dict[str, dict[str, float]]]
"""From file to file by name: how much the use of that name weighs."""


def _graph(tags: Sequence[FileTags], mentioned: frozenset[str]) -> tuple[_Edges, dict[str, list[str]]]:
    definers: dict[str, list[str]] = defaultdict(list)
    for each in tags:
        for name in dict.fromkeys(tag.name for tag in each.definitions):
            if len(name) >= _LEAST_NAME:
                definers[name].append(each.path)
    edges: _Edges = {}
    # What tests define is seldom what other code stands on.
    share = {each.path: 0.1 if is_test_path(each.path) else 1.0 for each in tags}
    for each in tags:
        out: dict[str, dict[str, float]] = {}
        for name, count in each.uses:
            places = definers.get(name)
            if places is None or len(places) > _COMMON:
                continue
            weight = math.sqrt(count) / len(places) * _telling(name)
            if name in mentioned:
                weight *= _MENTIONED
            for place in places:
                if place != each.path:
                    out.setdefault(place, {})[name] = weight * share[place]
        edges[each.path] = out
    return edges, definers


def _telling(name: str) -> float:
    """How sure the use of a name points to its definition: plain words are mostly local variables."""
    if name.startswith("_"):
        return 0.1
    compound = "_" in name.strip("_") or not (name.islower() or name.isupper())
    return 2.0 if compound and len(name) >= 8 else 1.0 if compound else 0.2


def _page_rank(paths: Sequence[str], edges: _Edges, seeds: Mapping[str, float]) -> dict[str, float]:
    """Power iteration in a fixed order; what has no way out goes back to the start."""
    known = {path: max(seeds.get(path, 0.0), 0.0) for path in paths}
    total = sum(known.values())
    even = 1.0 / max(len(paths), 1)
    # Some weight everywhere: a seed that leads nowhere must not leave the rest without an order.
    start = {path: 0.8 * known[path] / total + 0.2 * even if total else even for path in paths}
    shares: list[tuple[str, list[tuple[str, float]]]] = []
    for path in paths:
        weighed = [(target, sum(names.values())) for target, names in edges[path].items()]
        whole = sum(weight for _, weight in weighed)
        shares.append((path, [(target, weight / whole) for target, weight in weighed]))
    rank = dict(start)
    for _ in range(_ROUNDS):
        fresh = dict.fromkeys(paths, 0.0)
        lost = 0.0
        for path, targets in shares:
            if not targets:
                lost += rank[path]
            for target, share in targets:
                fresh[target] += rank[path] * share
        rank = {
            path: (1 - _DAMPING) * start[path] + _DAMPING * (fresh[path] + lost * start[path])
            for path in paths
        }
    return rank


def _symbol_weights(
    tags: Sequence[FileTags],
    edges: _Edges,
    rank: Mapping[str, float],
    definers: Mapping[str, Sequence[str]],
    mentioned: frozenset[str],
) -> dict[tuple[str, str], float]:
    """(file, name) to what flows into it from the files that use it."""
    weights: defaultdict[tuple[str, str], float] = defaultdict(float)
    for each in tags:
        out = edges[each.path]
        whole = sum(weight for names in out.values() for weight in names.values())
        for target, names in out.items():
            for name, weight in names.items():
                weights[target, name] += rank[each.path] * weight / whole
    # What nobody uses still belongs to a file that may matter.
    for name, places in definers.items():
        for place in places:
            weights[place, name] += 0.01 * rank[place]
            if name in mentioned:
                weights[place, name] *= _MENTIONED
    return weights


def _render(
    tags: Sequence[FileTags], weights: Mapping[tuple[str, str], float], rank: Mapping[str, float], room: int
) -> tuple[str, tuple[str, ...]]:
    """As many of the weightiest definitions as fit, by file, in the order of their lines."""
    order: list[tuple[float, str, int]] = []
    by_path = {each.path: each for each in tags}
    for each in tags:
        for number, tag in enumerate(each.definitions):
            weight = weights.get((each.path, tag.name), 0.0)
            order.append((-weight, each.path, number))
    order.sort()
    order = order[:5000]
    chosen: dict[str, set[int]] = {}
    used = 0
    for _, path, number in order:
        cost = len(_line(by_path[path].definitions[number]).encode()) + 1
        if path not in chosen:
            cost += len(path.encode("utf-8", "replace")) + 2
        if used + cost > room:
            # Shorter ones may still fit, but an order with holes misleads: this is the end.
            break
        used += cost
        chosen.setdefault(path, set()).add(number)
    files = sorted(chosen, key=lambda path: (-rank[path], path))
    blocks: list[str] = []
    for path in files:
        definitions = by_path[path].definitions
        lines = [_line(definitions[number]) for number in sorted(chosen[path])]
        blocks.append("\n".join([f"{path}:", *lines]))
    return "\n".join(blocks), tuple(files)


def _line(tag: Tag) -> str:
    depth = tag.qualified_name.count(".") + tag.qualified_name.count("::")
    text = f"{'  ' * min(depth, 4)}  {tag.line}: {tag.signature}"
    return text if len(text) <= _MAX_LINE else text[: _MAX_LINE - 3] + "..."
