"""Requests are packed, unpacked and halved without a loss."""

from __future__ import annotations

import pytest

from otel_ofu.export.request import halves, pack, unpack
from otel_ofu.outbox.batch import Body
from tests.export.samples import body, request, values


def test_equal_requests_give_equal_bytes_that_unpack_again() -> None:
    once = body(0.25, gpus=3)
    assert pack(unpack(once)) == once
    assert request(once).SerializeToString() == once.raw()


def test_halves_hold_everything_in_order() -> None:
    left, right = halves(body(gpus=5)) or pytest.fail("not halved")
    assert (left.points, right.points) == (2, 3)
    whole = request(body(gpus=5)).resource_metrics
    parts = [*request(left).resource_metrics, *request(right).resource_metrics]
    assert parts == list(whole)


def test_a_single_resource_is_not_halved() -> None:
    assert halves(body()) is None
    assert len(values([body()])) == 1


@pytest.mark.parametrize("odd", [Body("webhook", b"", 1), Body("metrics", b"junk", 1)])
def test_what_is_no_request_is_not_halved(odd: Body) -> None:
    assert halves(odd) is None
