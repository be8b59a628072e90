"""The lanes count which parcels they refer to, and never otherwise than what they keep says."""

from hypothesis import given
from hypothesis import strategies as st

from delivery.model.agenda import Agenda
from delivery.wire.post_lanes import ANSWER_BYTES, Post
from delivery.wire.posts import Over, encode
from namegraph import DurableState, ServerId

PEERS = [ServerId("b.x"), ServerId("c.x")]
INLINE, ANSWER = encode(Over(1, 1, 1)), encode(Over(2, 2, 2))

STEPS = st.one_of(
    st.tuples(st.just("parcel"), st.sampled_from(PEERS), st.integers(1, 4)),
    st.tuples(st.just("inline"), st.sampled_from(PEERS), st.just(0)),
    st.tuples(st.just("answer"), st.sampled_from(PEERS), st.just(0)),
    st.tuples(st.just("received"), st.sampled_from(PEERS), st.integers(0, 12)),
    st.tuples(st.just("begins again"), st.sampled_from(PEERS), st.just(0)),
    st.tuples(st.just("blanked"), st.sampled_from(PEERS), st.just(0)),
)


@given(st.lists(STEPS, max_size=60))
def test_what_the_lanes_refer_to_is_what_they_keep(steps):
    post = Post(DurableState(), Agenda())
    post.parcels.update({position: b"parcel %d" % position for position in range(1, 5)})
    for step, peer, number in steps:
        match step:
            case "parcel":
                post.send_parcel(peer, number)
            case "inline":
                post.send_inline(peer, INLINE)
            case "answer":
                post.send_answer(peer, ANSWER)
            case "received":
                post.received(peer, number)
            case "begins again":
                post.begin_again(peer)
            case "blanked":
                for position in sorted(post.positions_kept()):
                    post.blank(peer, position)
                post.blank_inline(peer, after=0, at_most=1_000)
        for other in PEERS:
            answers = [letter for letter in post.kept(other) if letter.encoded == ANSWER]
            assert post.answers_bytes(other) == len(answers) * (1 + len(ANSWER) + ANSWER_BYTES)
        kept = {letter.encoded for other in PEERS for letter in post.kept(other)}
        expected = {position for position, parcel in post.parcels.items() if parcel in kept}
        assert post.positions_kept() == expected
        assert {position for position in post.parcels if post.refers_to(position)} == expected
