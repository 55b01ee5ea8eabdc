"""A hung test must leave time for the rest of the run."""

from __future__ import annotations

import pytest
from whimbrel.app.repo.testing.patience import seconds_for_one_test


@pytest.mark.parametrize(("whole_s", "one_s"), [(10, 6.0), (60, 6.0), (100, 10.0), (600, 60.0), (7200, 60.0)])
def test_one_test_gets_a_tenth_of_the_run_within_bounds(whole_s: float, one_s: float):
    assert seconds_for_one_test(whole_s) == one_s
