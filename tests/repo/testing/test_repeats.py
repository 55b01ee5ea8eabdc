"""A test that fails only in company is no flaky one; a test that fails every other time is."""

from __future__ import annotations

from whimbrel.app.repo.testing.repeats import repeat


async def test_what_fails_after_others_is_told_from_what_fails_sometimes(project, tmp_path):
    marker = tmp_path / "marker"
    made = await project(
        {
            "shared.py": "seen = []\n",
            "test_a.py": """
                from shared import seen
                def test_fills(): seen.append(1)
                def test_empty(): assert seen == []
            """,
            "test_b.py": f"""
                import os
                from shared import seen
                def test_far(): assert not seen
                def test_firm(): assert False
                def test_coin():
                    if os.path.exists({str(marker)!r}):
                        os.remove({str(marker)!r})
                    else:
                        open({str(marker)!r}, "w").close()
                        assert False
            """,
        }
    )
    report = (await made.runner.run(purpose="baseline")).report
    bad = [case.id for case in report.failing()]
    assert [name.partition("::")[2] for name in bad] == ["test_empty", "test_far", "test_firm", "test_coin"]
    found = await repeat(made.runner, report, bad)
    assert found.flaky == ("test_b.py::test_coin",)
    assert found.after == {
        "test_a.py::test_empty": ("test_a.py::test_fills",),
        "test_b.py::test_far": ("test_a.py::test_fills", "test_a.py::test_empty"),
    }
