from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.sources.dcgm.wire import (
    MAX_FRAME_BYTES,
    DcgmSample,
    FrameBuffer,
    SamplesReply,
    frame,
    parse_reply,
)

values = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=20)
)
samples = st.builds(
    DcgmSample, st.integers(0, 65535), st.integers(-99, 0), st.integers(0, 2**62), values
)


@given(row=st.lists(samples, max_size=5), sizes=st.lists(st.integers(1, 50), min_size=1))
def test_a_message_survives_however_it_is_cut(row: list[DcgmSample], sizes: list[int]) -> None:
    message = SamplesReply(epoch=1, targets=[], of_target=[row], watched_since_s=1.5)
    rest, buffer, found = frame(message) * 2, FrameBuffer(), []
    while rest:
        for size in sizes:
            buffer.feed(rest[:size])
            rest = rest[size:]
            while (body := buffer.next_body()) is not None:
                found.append(parse_reply(body))
    assert found == [message, message]


def test_a_float_stays_a_float_and_an_integer_an_integer() -> None:
    row = [DcgmSample(1, 0, 0, 5.0), DcgmSample(1, 0, 0, 5)]
    reply = parse_reply(
        frame(SamplesReply(epoch=1, targets=None, of_target=[row], watched_since_s=0))[4:]
    )
    assert isinstance(reply, SamplesReply)
    assert [type(s.value) for s in reply.of_target[0]] == [float, int]


def test_a_size_that_cannot_be_is_refused_before_it_is_waited_for() -> None:
    buffer = FrameBuffer()
    buffer.feed((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
    with pytest.raises(ValueError, match="at most"):
        buffer.next_body()
