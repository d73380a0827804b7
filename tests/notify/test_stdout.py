"""Lines of JSON on standard output; a reader that went away loses nothing."""

from __future__ import annotations

import io
import json
import os

import pytest

from otel_ofu.notify.alert import Notification, opened
from otel_ofu.notify.stdout import StdoutTransport
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.outcome import Delivered, Unavailable
from tests.notify import rig
from tests.notify.rig import NOW_S, settings


def body() -> Body:
    written = settings(receivers=[{"name": "ops", "stdout_configs": [{}]}])
    return rig.body(written, Notification("ops", "k", {}, [opened(rig.finding("1"))], NOW_S))


def test_one_line_per_notification(capsys: pytest.CaptureFixture[str]) -> None:
    delivery = StdoutTransport()
    assert [delivery.send(body(), 1.0) for _ in range(2)] == [Delivered()] * 2
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["alerts"][0]["labels"]["hw_id"] for line in lines] == ["1", "1"]


def test_a_pipe_that_nobody_reads_and_a_closed_stream_are_tried_again() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    raw = os.fdopen(writer, "wb", buffering=0)
    with io.TextIOWrapper(raw, write_through=True) as stream:
        outcome = StdoutTransport(stream).send(body(), 1.0)
    assert outcome == Unavailable("[Errno 32] Broken pipe")
    assert isinstance(StdoutTransport(stream).send(body(), 1.0), Unavailable)
