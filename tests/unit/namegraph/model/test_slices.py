"""Work in slices comes to the same as work that is done at once."""

from random import Random

import pytest

from namegraph.model.slices import SLICE_ITEMS, at_once, in_slices, sorted_in_slices


def counted(slices):
    """Return the result of slices, and their number."""
    count = 0
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value, count
        count += 1


@pytest.mark.parametrize("size", [0, 1, SLICE_ITEMS, SLICE_ITEMS + 1, 20 * SLICE_ITEMS])
def test_any_list_is_sorted(size):
    chance = Random(size)
    items = [f"p{chance.randrange(10 * size)}@people.example" for _ in range(size)]
    assert at_once(sorted_in_slices(items)) == sorted(items)


def test_a_list_that_is_sorted_already_or_says_the_same_again_and_again_is_sorted():
    assert at_once(sorted_in_slices(range(3 * SLICE_ITEMS))) == list(range(3 * SLICE_ITEMS))
    same = ["a"] * (3 * SLICE_ITEMS)
    assert at_once(sorted_in_slices(same)) == same


def test_a_short_list_is_one_slice_and_a_long_one_many():
    assert counted(sorted_in_slices([2, 1])) == ([1, 2], 1)
    _, count = counted(sorted_in_slices([Random(1).random() for _ in range(10 * SLICE_ITEMS)]))
    assert count > 15, "dealt out in ten slices, and sorted in about ten"


def test_items_come_so_many_at_a_time():
    assert list(in_slices("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(in_slices("", 2)) == []
