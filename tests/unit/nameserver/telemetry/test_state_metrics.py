"""A scrape is answered even while the event loop stands still. It then tells of that alone."""

from concurrent.futures import ThreadPoolExecutor

from nameserver.telemetry import state_metrics
from nameserver.telemetry.state_metrics import StateCollector


def collector():
    names = ("core", "census", "run_loop", "peers", "calls_under_way", "plans_kept", "messages_refused_by_rate")
    return StateCollector(**dict.fromkeys((*names, "undelivered", "messages_queued", "in_memory")))


async def test_a_loop_that_stands_still_is_told(monkeypatch):
    monkeypatch.setattr(state_metrics, "ANSWER_SECONDS", 0.05)
    asked = collector()
    with ThreadPoolExecutor(1) as scraping:
        # The loop waits for the scrape, and so stands still while it lasts.
        families = scraping.submit(lambda: list(asked.collect())).result(timeout=60)
    found = {family.name: family.samples[0].value for family in families}
    assert found["shadowtree_event_loop_answers"] == 0
    assert set(found) == {"shadowtree_event_loop_answers", "shadowtree_time_of_day_seconds"}
