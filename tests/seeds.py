"""Seeds of tests that try many histories of a kind: as many as the profile of Hypothesis allows."""

from hypothesis import settings

USUAL_EXAMPLES = settings.get_profile("usual").max_examples


def seeds(count):
    """Return the seeds 0, 1, 2 and so on. `count`: their number in all profiles but `small`, which has a quarter."""
    return range(max(1, count * min(settings().max_examples, USUAL_EXAMPLES) // USUAL_EXAMPLES))
