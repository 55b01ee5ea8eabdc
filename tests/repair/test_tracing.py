"""Coverage of large suites: what failing tests run, and the passing tests near it."""

from __future__ import annotations

from pathlib import Path

import pytest
from whimbrel.app.repair import tracing
from whimbrel.app.repair.baseline import take_baseline
from whimbrel.app.repair.validate import Validator
from whimbrel.app.repo.testing.report import Outcome
from whimbrel.app.tools.run_tests import recall

from .project import opened

FILES = {
    "shop/__init__.py": "",
    "shop/prices.py": "def price(count):\n    return count * 3 if count >= 10 else count * 2\n",
    "shop/cart.py": "from . import prices\n\n\ndef total(counts):\n    return sum(map(prices.price, counts))\n",
    "shop/labels.py": "def label(text):\n    return text.strip().title()\n",
    "tests/test_prices.py": (
        "from shop.prices import price\n"
        "def test_few(): assert price(2) == 4\n"
        "def test_ten(): assert price(10) == 20\n"
        "def test_many(): assert price(11) == 33\n"
    ),
    "tests/test_cart.py": "from shop.cart import total\ndef test_total(): assert total([1, 2]) == 6\n",
    "tests/test_labels.py": "from shop.labels import label\ndef test_label(): assert label(' a b') == 'A B'\n",
}


async def test_far_away_tests_of_a_large_suite_are_neither_recorded_nor_run_for_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tracing, "LARGE", 4)
    async with opened(tmp_path, FILES) as context:
        before = await context.tests.run(purpose="baseline")
        await recall(context, before)
        baseline = await take_baseline(context)
        assert baseline.targets == ("tests/test_prices.py::test_ten",)
        recorded = set(baseline.coverage) - {""}
        assert recorded == {
            "tests/test_cart.py::test_total",
            "tests/test_prices.py::test_few",
            "tests/test_prices.py::test_many",
            "tests/test_prices.py::test_ten",
        }
        assert len(baseline.passing) == 4, "the outcomes are those of the whole suite"
        validator = await Validator.open(context.tests, baseline)
        try:
            assert validator.steady == recorded - set(baseline.targets)
        finally:
            await validator.close()


async def test_a_tree_that_changed_since_is_recorded_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tracing, "LARGE", 4)
    async with opened(tmp_path, FILES) as context:
        await recall(context, await context.tests.run(purpose="baseline"))
        context.workspace.write("shop/labels.py", b"def label(text):\n    return text.title().strip()\n")
        assert "tests/test_labels.py::test_label" in (await take_baseline(context)).coverage


async def test_a_test_that_is_known_to_hang_is_not_waited_for_once_more(tmp_path: Path):
    endless = "def price(count):\n    while count >= 10:\n        count += 1\n    return count * 2\n"
    async with opened(tmp_path, {**FILES, "shop/prices.py": endless}, test_timeout_s=8) as context:
        await recall(context, await context.tests.run(purpose="baseline"))
        baseline = await take_baseline(context)
        hung = baseline.report.by_id()["tests/test_prices.py::test_ten"]
        assert hung.outcome is Outcome.TIMEOUT and hung.duration_s < 8
        assert 3 in baseline.coverage[hung.id]["shop/prices.py"]
        assert context.tests.test_timeout_s == 8, "the proof gives every test its time"


async def test_a_test_that_fails_only_while_lines_are_recorded_does_not_count_as_failing(tmp_path: Path):
    looking = (
        "import sys\n"
        "def test_nobody_is_watching():\n"
        "    tools = range(6) if hasattr(sys, 'monitoring') else ()\n"
        "    assert sys.gettrace() is None and not any(sys.monitoring.get_tool(n) for n in tools)\n"
    )
    async with opened(tmp_path, {**FILES, "tests/test_looking.py": looking}) as context:
        await recall(context, await context.tests.run(purpose="baseline"))
        baseline = await take_baseline(context)
        assert baseline.targets == ("tests/test_prices.py::test_ten",)
        assert "tests/test_looking.py::test_nobody_is_watching" in baseline.passing


def test_every_form_of_import_is_understood():
    text = (
        "import os, shop.prices as p\n"
        "from shop import (\n    cart,\n    labels as names,\n)\n"
        "from .near import thing  # why\n"
        "from ..other import x\n"
        "from . import beside\n"
    )
    assert list(tracing.imported("a/b/c.py", text)) == [
        "os", "shop.prices", "shop", "shop.cart", "shop.labels", "a.b.near", "a.b.near.thing",
        "a.other", "a.other.x", "a.b", "a.b.beside",
    ]  # fmt: skip
    assert tracing.names_of("src/shop/__init__.py") == ["src.shop", "shop"]
    assert tracing.names_of("shop/prices.py") == ["shop.prices", "prices"]
