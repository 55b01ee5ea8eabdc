"""Flaky tests show themselves in fresh processes."""

from __future__ import annotations


async def test_re_runs_in_fresh_processes_show_a_test_that_fails_every_other_time(project, tmp_path):
    marker = tmp_path / "marker"
    made = await project(
        {
            "test_a.py": f"""
                import os
                def test_coin():
                    if os.path.exists({str(marker)!r}):
                        os.remove({str(marker)!r})
                    else:
                        open({str(marker)!r}, "w").close()
                        assert False
                def test_firm(): assert False
            """
        }
    )
    ids = ["test_a.py::test_coin", "test_a.py::test_firm", "test_a.py::test_gone"]
    outcomes = await made.runner.flaky(ids, times=3)
    assert outcomes == {
        "test_a.py::test_coin": ("failed", "passed", "failed"),
        "test_a.py::test_firm": ("failed", "failed", "failed"),
        "test_a.py::test_gone": ("missing", "missing", "missing"),
    }
    assert [row.purpose for row in made.ledger.rows] == ["flaky-check"] * 3
