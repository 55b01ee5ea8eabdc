"""Small buggy projects, one or more per kind of fault, repaired through the tool with real processes.

A hidden test that the search never sees decides whether the patch is right.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from project import opened
from scenarios import HIDDEN, Scenario, all_scenarios
from whimbrel.app.tools.base import ToolContext
from whimbrel.app.tools.repair import RepairArguments, RepairTool

QUICK = {"comparison-boundary", "guard-none", "two-calls-away"}
IN_BUBBLEWRAP = {"arithmetic-invoice", "guard-continue"}
SCENARIOS = {scenario.name: scenario for scenario in all_scenarios()}


async def repaired_rightly(context: ToolContext, scenario: Scenario) -> None:
    result = await RepairTool().run(context, RepairArguments())
    assert result.data["status"] == "fixed", result.text
    (patch,) = result.data["patches"]
    assert patch["verified"]
    rows = [context.ledger.rows[number - 1] for number in patch["ledger_rows"]]
    assert len(rows) == 4
    assert all(row.fresh_process and row.purpose.startswith("verification") for row in rows)
    changed = await context.workspace.changed_files()
    assert [each.path for each in changed] == re.findall(r"^diff --git a/(.*) b/", patch["diff"], re.M)
    assert changed[0].path == patch["path"] and not any(each.is_test for each in changed)
    context.workspace.write(HIDDEN, scenario.hidden.encode())
    hidden = await context.tests.run([HIDDEN], purpose="hidden")
    assert hidden.report.cases
    assert not hidden.report.failing(), patch["diff"]


@pytest.mark.parametrize("name", sorted(QUICK))
async def test_the_bug_is_repaired_and_the_hidden_test_agrees(name: str, tmp_path: Path):
    async with opened(tmp_path, SCENARIOS[name].files) as context:
        await repaired_rightly(context, SCENARIOS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SCENARIOS.keys() - QUICK))
async def test_the_bug_is_repaired_and_the_hidden_test_agrees_for_every_kind(name: str, tmp_path: Path):
    async with opened(tmp_path, SCENARIOS[name].files) as context:
        await repaired_rightly(context, SCENARIOS[name])


@pytest.mark.slow
@pytest.mark.bwrap
@pytest.mark.parametrize("name", sorted(IN_BUBBLEWRAP))
async def test_the_bug_is_repaired_inside_bubblewrap(name: str, tmp_path: Path):
    async with opened(tmp_path, SCENARIOS[name].files, kind="bwrap") as context:
        await repaired_rightly(context, SCENARIOS[name])


def test_every_family_has_a_scenario_named_after_it():
    from whimbrel.app.repair.families import all_families

    for family in all_families():
        stem = family.name.split("-assignment")[0]
        assert any(name.startswith(stem) for name in SCENARIOS), family.name
