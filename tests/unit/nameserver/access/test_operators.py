"""Operators: callers of this machine, and principals that the settings name."""

import pytest

from namegraph import ANONYMOUS, OPERATOR, Reason, RefusedError, ServerPolicy, parse_server_policy
from nameserver.access.caller import Caller, How
from nameserver.access.operators import Operators

HERE, ELSEWHERE = "ipv4:127.0.0.1:40000", "ipv4:192.0.2.7:40000"
IT, STAFF = "it@b.x", "staff@b.x"
POLICY = parse_server_policy({"operators": [IT, STAFF]})


def operators(policy=POLICY):
    return Operators(policy, is_in=lambda who, group: (who, group) == ("ann@b.x", STAFF))


@pytest.mark.parametrize(
    ("caller", "may"),
    [
        (Caller(OPERATOR, How.LOCAL, "unix:"), True),
        (Caller(ANONYMOUS, How.LOOPBACK, HERE), True),
        (Caller(ANONYMOUS, How.LOOPBACK, ELSEWHERE), False),
        # Coming from this machine proves nothing to a protected server.
        (Caller(ANONYMOUS, How.NONE, HERE), False),
        (Caller(IT, How.KEY, ELSEWHERE), True),
        (Caller(IT, How.TOKEN, ELSEWHERE), True),
        (Caller(IT, How.CERTIFICATE, ELSEWHERE), True),
        (Caller("ann@b.x", How.TOKEN, ELSEWHERE), True),
        (Caller("bob@b.x", How.TOKEN, HERE), False),
        (Caller(IT, How.KEY, ELSEWHERE, privileges=frozenset(("check",))), False),
        (Caller(IT, How.KEY, ELSEWHERE, privileges=frozenset(("operate",))), True),
        (Caller(IT, How.PEER, ELSEWHERE, via="b.x"), False),
        (Caller(ANONYMOUS, How.PEER, HERE, via="b.x"), False),
    ],
    ids=str,
)
def test_the_callers_that_may_administer_are_those_with_operate(caller, may):
    found = operators()
    assert found.includes(caller) is may
    if may:
        found.require(caller)
        return
    with pytest.raises(RefusedError) as caught:
        found.require(caller)
    refusal = caught.value.refusal
    assert (refusal.reason, refusal.facts) == (Reason.PERMISSION_DENIED, {"privilege": "operate"})


def test_without_a_setting_only_the_local_socket_administers_a_protected_server():
    nobody = operators(ServerPolicy())
    assert not nobody.includes(Caller(IT, How.TOKEN, HERE))
    assert nobody.includes(Caller(OPERATOR, How.LOCAL, "unix:"))
