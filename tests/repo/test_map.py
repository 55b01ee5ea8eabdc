"""The map of a repository: what matters first, within its tokens, the same every time."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

from whimbrel.app.repo.map import build_map
from whimbrel.app.repo.tags import FileTags, Tag, TagStore, sources, tags_of

FILES = {
    "shop/prices.py": "class PriceTable:\n    def look_up_price(self, name):\n        return 1\n",
    "shop/cart.py": "from shop.prices import PriceTable\n\ndef total_of(cart):\n    return PriceTable().look_up_price(cart)\n",
    "shop/report.py": "from shop.prices import PriceTable\nfrom shop.cart import total_of\n\ndef print_report(c):\n    table = PriceTable()\n    return total_of(c)\n",
    "web/server.js": "function startServer() { return readConfig(); }\n",
    "web/config.js": "export function readConfig() { return {}; }\n",
    "alone.py": '"""PriceTable PriceTable PriceTable"""\n\ndef nobody_calls_this():\n    pass\n',
}


def made(root: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sorted(files)


def tags(root: Path, paths: list[str], store: Path | None = None) -> list[FileTags]:
    with TagStore(store) as opened:
        return tags_of(sources(root, paths), opened, 1 << 20)


def test_what_is_used_most_comes_first_with_its_lines_and_words_in_strings_do_not_count(
    tmp_path: Path,
) -> None:
    found = tags(tmp_path, made(tmp_path, FILES))
    ranked = build_map(found, seeds={}, most_tokens=1000)
    assert ranked.text.startswith(
        "shop/prices.py:\n  1: class PriceTable:\n    2: def look_up_price(self, name):"
    )
    assert ranked.ranking[0] == "shop/prices.py" and set(ranked.ranking) == set(FILES)
    assert "web/config.js" in ranked.text and "function readConfig()" in ranked.text
    used = {each.path: dict(each.uses) for each in found}
    assert used["shop/report.py"]["PriceTable"] == 2 and "PriceTable" not in used["alone.py"]


def test_seeds_and_names_of_the_issue_pull_what_belongs_to_them_to_the_front(tmp_path: Path) -> None:
    found = tags(tmp_path, made(tmp_path, FILES))
    assert build_map(found, seeds={"web/server.js": 1.0}, most_tokens=1000).ranking[:2] == (
        "web/server.js",
        "web/config.js",
    )
    mentioned = build_map(found, seeds={}, text="total_of is wrong", most_tokens=16)
    assert mentioned.files == ("shop/cart.py",)


def test_the_text_stays_within_its_tokens_and_is_the_same_in_any_order_of_reading(tmp_path: Path) -> None:
    paths = made(tmp_path, FILES)
    texts = {
        build_map(tags(tmp_path, order), seeds={}, most_tokens=40).text for order in (paths, paths[::-1])
    }
    assert len(texts) == 1 and 0 < len(texts.pop().encode()) <= 120


def test_unreadable_binary_huge_and_strange_files_cost_nothing_but_themselves(tmp_path: Path) -> None:
    paths = made(tmp_path, FILES)
    (tmp_path / "binary.py").write_bytes(b"\0\1\2" * 100)
    (tmp_path / "huge.py").write_bytes(b"x = 1\n" * 600_000)
    (tmp_path / "broken.py").write_text("def broken(:\n  class (((\n")
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.py")
    odd = ["binary.py", "huge.py", "broken.py", "link.py", "pipe.py", "missing.py", "bad\udcff.py"]
    found = tags(tmp_path, [*odd, *paths])
    assert {each.path for each in found} == {*FILES, "binary.py", "broken.py"}
    assert build_map(found, seeds={}, most_tokens=1000).text.startswith("shop/prices.py:")


def test_tags_are_kept_by_content_and_a_damaged_store_is_as_good_as_none(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    paths = made(root, FILES)
    place = tmp_path / "cache" / "symbols.sqlite"
    first = tags(root, paths, place)
    with sqlite3.connect(place) as connection:
        # Seen again in the next reading, so it was not parsed a second time.
        rows = connection.execute("SELECT key, value FROM tags").fetchall()
        connection.executemany(
            "UPDATE tags SET value = ? WHERE key = ?",
            [(value.replace("PriceTable", "FromTheStore"), key) for key, value in rows],
        )
    connection.close()
    assert any(tag.name == "FromTheStore" for each in tags(root, paths, place) for tag in each.definitions)
    (root / "shop/prices.py").write_text("class Other: pass\n")
    assert "Other" in json.dumps(
        [[tag.name for tag in each.definitions] for each in tags(root, paths, place)]
    )
    made(root, FILES)
    place.write_bytes(b"garbage" * 1000)
    assert tags(root, paths, place) == first


def test_ten_thousand_files_are_ranked_within_bounds() -> None:
    found = [
        FileTags(
            f"pkg/module{number}.py",
            (
                Tag(
                    f"compute_value_{number}",
                    f"compute_value_{number}",
                    1,
                    2,
                    f"def compute_value_{number}():",
                ),
            ),
            tuple((f"compute_value_{number * step % 1000}", 1) for step in range(1, 6)),
            100,
        )
        for number in range(10_000)
    ]
    ranked = build_map(found, seeds={"pkg/module77.py": 1.0}, most_tokens=500)
    assert len(ranked.text.encode()) <= 1500 and len(ranked.ranking) == 10_000
    assert ranked.files[0] == "pkg/module77.py" or "compute_value_77" in ranked.text


def test_only_so_many_bytes_are_read(tmp_path: Path) -> None:
    paths = made(tmp_path, {f"m{number}.py": "x = 1\n" * 100 for number in range(10)})
    with TagStore(None) as store:
        assert len(tags_of(sources(tmp_path, paths), store, 3 * 600)) == 3
