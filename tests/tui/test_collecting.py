"""Full collections of garbage wait until nobody does."""

import gc

from whimbrel.app.tui.collecting import PILED_UP, CalmCollector


class Timers:
    def set_interval(self, interval: float, callback: object) -> None:
        assert interval > 1


def test_full_collections_wait_for_rest_and_come_when_it_is_there() -> None:
    now, spent = [0.0], [0.0]
    before = gc.get_threshold()
    collector = CalmCollector(lambda: now[0], lambda: spent[0])
    collector.start(Timers())
    try:
        assert gc.get_threshold()[2] > PILED_UP
        gc.collect()
        gc.collect(1)  # something waits for a full collection
        now[0], spent[0] = 3.0, 2.0
        collector.look()
        assert collector.collections == 0, "it was busy"
        gc.collect(1)
        now[0] = 6.0
        collector.look()
        assert collector.collections == 1
        now[0] = 9.0
        collector.look()
        assert collector.collections == 1, "there is nothing new"
    finally:
        collector.stop()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
