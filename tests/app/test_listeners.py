"""What listens does not share threads or limits: a flood of one port leaves the other alone."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress

from otel_ofu.export.prometheus import page_server
from otel_ofu.export.settings import PrometheusSettings
from otel_ofu.receive import OtlpReceiverSettings
from tests.net.serving import Client, serving
from tests.net.test_http_server import GET
from tests.receive.rig import Options, receiving
from tests.waiting import HANGS_S, wait_until

FREE = PrometheusSettings(listen="127.0.0.1:0")
POST = b"POST /v1/metrics HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
WHOLE = POST + b"Content-Length: 2\r\n\r\n{}"
MOST = 20


def test_the_page_is_answered_while_the_otlp_port_is_flooded() -> None:
    """The flood never ends by itself; the limit is one for hangs."""
    ended = threading.Event()
    page = page_server(lambda: "up 1\n", FREE)
    with (
        receiving(Options(OtlpReceiverSettings(max_connections=MOST))) as rig,
        ExitStack() as stack,
    ):
        page.start()
        stack.callback(page.close)
        assert rig.receiver.http is not None
        flooded = Client(rig.receiver.http)
        # Bodies that do not come: these stay, and every place is taken.
        for _ in range(MOST):
            stack.enter_context(flooded.open(POST + b"Content-Length: 9\r\n\r\n{"))
        budget = rig.receiver.budget
        wait_until(
            lambda: budget.left == OtlpReceiverSettings().max_pending_size - MOST, "all of them"
        )
        assert flooded.raw(b"").startswith(b"HTTP/1.1 429")

        def flood() -> None:
            while not ended.is_set():
                with suppress(ConnectionError):
                    flooded.raw(WHOLE)

        threads = [threading.Thread(target=flood) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            answers = [Client(page).ask("/metrics")[::2] for _ in range(10)]
            assert flooded.server.connections <= MOST + 1
        finally:
            ended.set()
            for thread in threads:
                thread.join(HANGS_S)
    assert answers == [(200, b"up 1\n")] * 10


def test_the_page_is_answered_while_the_thread_of_another_listener_is_stuck() -> None:
    stuck, go_on = threading.Event(), threading.Event()

    def block() -> bool:
        stuck.set()
        return go_on.wait(HANGS_S)

    page = page_server(lambda: "up 1\n", FREE)
    with serving(allows=lambda _given: block()) as client, ExitStack() as stack:
        page.start()
        stack.callback(page.close)
        stack.callback(go_on.set)
        stack.enter_context(client.open(GET))
        assert stuck.wait(HANGS_S)
        assert Client(page).ask("/metrics")[::2] == (200, b"up 1\n")
