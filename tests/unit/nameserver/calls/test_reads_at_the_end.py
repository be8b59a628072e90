from types import SimpleNamespace

import pytest

from namegraph import Reason, RefusedError, refuse
from nameserver.calls.adapters import read

REQUEST = SimpleNamespace(at_least_revision="")


class Filling:
    async def fill_for(self, names):
        assert list(names) == []


@pytest.mark.parametrize("is_refused_too", [False, True])
async def test_an_answer_given_while_the_server_parts_from_the_others_is_refused(is_refused_too):
    has_parted = False

    async def answer(request, context):
        nonlocal has_parted
        has_parted = True
        if is_refused_too:
            raise refuse(Reason.UNAVAILABLE, "out of reach: b.x")
        return "nobody is in it"

    async def until_ready():
        if has_parted:
            raise refuse(Reason.UNAVAILABLE, "a.x is shutting down")

    method = read(answer, None, Filling(), until_ready=until_ready)
    with pytest.raises(RefusedError, match=r"a\.x is shutting down"):
        await method(REQUEST, None)
