"""Lines of JSON on standard output; a reader that went away loses nothing."""

from __future__ import annotations

import io
import json
import os

import pytest

from otel_ofu.notify.alert import opened
from otel_ofu.notify.http import NOTIFICATION
from otel_ofu.notify.message import MessageOptions
from otel_ofu.notify.notification import Notification
from otel_ofu.notify.stdout import StdoutDelivery, encoder
from otel_ofu.outbox.body import Body
from otel_ofu.outbox.outcome import Delivered, Unavailable
from tests.notify.said import NOW_S, said


def body() -> Body:
    told = Notification("i", "ops", "k", {}, [opened(said("1"))], NOW_S)
    return Body.of(NOTIFICATION, encoder(MessageOptions())(told), 1)


def test_one_line_per_notification(capsys: pytest.CaptureFixture[str]) -> None:
    delivery = StdoutDelivery()
    assert [delivery.send(body(), 1.0) for _ in range(2)] == [Delivered()] * 2
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["alerts"][0]["labels"]["hw_id"] for line in lines] == ["1", "1"]


def test_a_pipe_that_nobody_reads_and_a_closed_stream_are_tried_again() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    raw = os.fdopen(writer, "wb", buffering=0)
    with io.TextIOWrapper(raw, write_through=True) as stream:
        outcome = StdoutDelivery(stream).send(body(), 1.0)
    assert outcome == Unavailable("[Errno 32] Broken pipe")
    assert isinstance(StdoutDelivery(stream).send(body(), 1.0), Unavailable)
