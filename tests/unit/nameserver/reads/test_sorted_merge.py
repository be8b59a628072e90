"""Sorted pages of several servers become one sorted list, page by page."""

from hypothesis import given
from hypothesis import strategies as st

from nameserver.reads.sorted_merge import merged


async def pages_of(items, size, taken=None):
    """Sorted items in pages, as one server sends them; `taken` counts the pages that were asked for."""
    for start in range(0, len(items), size):
        if taken is not None:
            taken.append(start)
        yield items[start : start + size]


@given(st.lists(st.sets(st.integers(0, 60)), max_size=4), st.integers(1, 7))
async def test_everything_comes_once_and_in_order(sources, size):
    parts = [pages_of(sorted(source), size) for source in sources]
    given_out = [item async for items in merged(parts) for item in items]
    assert given_out == sorted(set().union(*sources))


async def test_no_more_than_a_page_of_each_is_held():
    taken = []
    endless = pages_of(range(1_000_000), 10, taken)
    pages = merged([endless, pages_of([5, 7, 10_000_000], 10)])
    first = await anext(pages)
    assert first == list(range(10))
    assert len(taken) == 1


async def test_an_error_of_a_source_ends_the_list_after_what_came_before_it():
    async def broken():
        yield [1, 2]
        raise ConnectionError

    given_out = []
    try:
        async for items in merged([broken(), pages_of([1, 3, 5], 1)]):
            given_out += items
    except ConnectionError:
        given_out.append("broken")
    assert given_out == [1, 2, "broken"]
