"""Delivery over HTTP to loopback servers that misbehave: kept, tried again, and no secret told."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import msgspec
import pytest

from otel_ofu.model.clock import VirtualClock
from otel_ofu.net.secrets import redacted, secrets_of_url, shown_url
from otel_ofu.notify.alert import Notification, ended, opened
from otel_ofu.notify.alertmanager import bodies_of, decoded, posted, servers_of
from otel_ofu.notify.integrations import Delivery, queue_limits
from otel_ofu.notify.message import MessageOptions
from otel_ofu.notify.settings import RouteSettings
from otel_ofu.notify.webhook import signature
from otel_ofu.outbox.batch import Body, Priority
from otel_ofu.outbox.outcome import Delivered, Outcome, Refused, TooLarge, Transport, Unavailable
from otel_ofu.outbox.queues import Outbox
from tests.export.servers import Reply, http_server
from tests.notify.rig import NOW_S, body, everything_logged, finding, integration, settings
from tests.peers.certs import Certificates, make_certificates
from tests.waiting import HANGS_S

JSON = {"Content-Type": "application/json"}
LATER = {**JSON, "Retry-After": "7"}
HTML = {"Content-Type": "text/html"}
WEBHOOK = "route/ops/webhook-0"
SECRET = "s3cr3t-planted-value"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def hook(url: str, **more: object) -> RouteSettings:
    config = {"url": url, "http_config": {"timeout": f"{HANGS_S:g}s"}, **more}
    return settings(receivers=[{"name": "ops", "webhook_configs": [config]}], receiver="ops")


def note(name: str = "1") -> Notification:
    return Notification("ops", "{}|ops:{}", {}, [opened(finding(name))], NOW_S, id="msg_1")


def sent(written: RouteSettings, environ: Mapping[str, str] | None = None) -> Outcome:
    """What comes of one notification to the first integration."""
    with closing(integration(written).connect(VirtualClock(NOW_S), environ or {})) as transport:
        return transport.send(body(written, note()), 5.0)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Reply(200, b"ok", JSON), Delivered()),
        (Reply(204, b"", JSON), Delivered()),
        (Reply(429, b"", LATER), Unavailable("HTTP 429 Too Many Requests", 7.0)),
        (Reply(500, b"oops", JSON), Unavailable("HTTP 500 Internal Server Error: oops")),
        (Reply(503, b"<html>", HTML), Unavailable("HTTP 503 Service Unavailable")),
        (Reply(401, b"who?", JSON), Unavailable("HTTP 401 Unauthorized: who?")),
        (Reply(404, b"", JSON), Unavailable("HTTP 404 Not Found")),
        (Reply(400, b"no json", JSON), Refused("HTTP 400 Bad Request: no json")),
        (Reply(413, b"", JSON), TooLarge("HTTP 413 Request Entity Too Large")),
    ],
)  # fmt: skip
def test_what_an_answer_means(reply: Reply, outcome: Outcome) -> None:
    with http_server(reply) as server:
        assert sent(hook(server.url)) == outcome


def test_a_date_in_retry_after_is_honoured() -> None:
    with http_server(Reply(429, b"", {**JSON, "Retry-After": formatdate(0)})) as server:
        assert sent(hook(server.url)) == Unavailable("HTTP 429 Too Many Requests", 0.0)


def test_a_redirect_elsewhere_is_not_followed_and_the_message_kept() -> None:
    with http_server() as elsewhere:
        target = f"{elsewhere.url}/login?token={SECRET}"
        with http_server(Reply(302, b"", {**JSON, "Location": target})) as server:
            outcome = sent(hook(server.url))
        assert isinstance(outcome, Unavailable)
        assert outcome.message == f"HTTP 302, a redirect to {elsewhere.url}/login; not followed"
        assert elsewhere.got == []


def test_a_server_that_does_not_answer_is_left_after_the_timeout() -> None:
    waiting = threading.Event()
    with http_server(Reply(wait=waiting)) as server:
        assert sent(hook(server.url, http_config={"timeout": "500ms"})) == Unavailable(
            "no answer within 0.5 s"
        )
        waiting.set()


def test_a_connection_that_breaks_in_the_middle_is_tried_again() -> None:
    with http_server(Reply(reset=True)) as server:
        assert isinstance(sent(hook(server.url)), Unavailable)


def test_nobody_there_and_no_such_host_are_told_in_plain_words() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert sent(hook(f"http://127.0.0.1:{port}")) == Unavailable("Connection refused")
    assert isinstance(sent(hook("http://no-such-host.invalid/")), Unavailable)


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ("expired", "certificate has expired"),
        ("stranger", "unable to get local issuer certificate"),
    ],
)
def test_a_server_with_a_bad_certificate_is_not_trusted_and_the_message_kept(
    identity: str, words: str, certificates: Certificates
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(
        getattr(certificates, identity).cert, getattr(certificates, identity).key
    )
    tls = {"timeout": f"{HANGS_S:g}s", "tls_config": {"ca_file": str(certificates.ca)}}
    with http_server(tls=context) as server:
        outcome = sent(hook(f"https://127.0.0.1:{server.port}", http_config=tls))
    assert outcome == Unavailable(f"TLS: the server's certificate is not trusted: {words}")


def test_mutual_tls(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.cert, certificates.server.key)
    context.load_verify_locations(certificates.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    files = {
        "ca_file": str(certificates.ca),
        "cert_file": str(certificates.client.cert),
        "key_file": str(certificates.client.key),
    }
    with http_server(tls=context) as server:
        written = hook(f"https://127.0.0.1:{server.port}", http_config={"tls_config": files})
        assert sent(written) == Delivered()


def test_the_payload_is_alertmanagers_version_4() -> None:
    with http_server() as server:
        assert sent(hook(server.url)) == Delivered()
        (got,) = server.got
    payload = json.loads(got.raw)
    assert set(payload) == {
        "version", "groupKey", "truncatedAlerts", "status", "receiver", "groupLabels",
        "commonLabels", "commonAnnotations", "externalURL", "alerts",
    }  # fmt: skip
    (alert,) = payload["alerts"]
    assert set(alert) == {
        "status", "labels", "annotations", "startsAt", "endsAt", "generatorURL", "fingerprint",
    }  # fmt: skip
    assert alert["endsAt"] == "0001-01-01T00:00:00Z"
    assert alert["startsAt"] == "2027-01-15T07:50:00.000Z"
    assert payload["commonLabels"] == alert["labels"]
    assert got.headers["Content-Type"] == "application/json"


def test_alerts_beyond_max_alerts_are_counted() -> None:
    alerts = [opened(finding(str(i))) for i in range(5)]
    written = hook("http://x", max_alerts=2)
    envelope = json.loads(body(written, Notification("ops", "k", {}, alerts, NOW_S)).raw())
    assert len(envelope["payload"]["alerts"]) == 2
    assert envelope["payload"]["truncatedAlerts"] == 3
    assert "hw_id" not in envelope["payload"]["commonLabels"]


def test_the_signature_is_that_of_standard_webhooks(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(f"{SECRET}\n")
    with http_server() as server:
        assert sent(hook(server.url, signing_secret_file=str(key))) == Delivered()
        (got,) = server.got
    signed = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}.".encode() + got.raw
    expected = base64.b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()).decode()
    assert got.headers["webhook-signature"] == f"v1,{expected}"
    assert got.headers["webhook-timestamp"] == str(int(NOW_S))


def test_the_signature_of_the_specifications_example() -> None:
    # Source: https://github.com/standard-webhooks/standard-webhooks, example of the specification.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    id_, timestamp, payload = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert signature(secret, id_, timestamp, payload) == expected


def test_credentials_and_headers_come_from_files_and_the_environment(tmp_path: Path) -> None:
    (tmp_path / "team").write_text("nlp\n")
    with http_server() as server:
        base = {"headers": {"X-Plain": "1"}, "headers_files": {"X-Team": str(tmp_path / "team")}}
        basic = {"basic_auth": {"username": "ofu", "password_env": "PASS"}}
        assert sent(hook(server.url, http_config=basic, **base), {"PASS": SECRET}) == Delivered()
        bearer = {"authorization": {"credentials_env": "TOKEN"}}
        assert sent(hook(server.url, http_config=bearer), {"TOKEN": SECRET}) == Delivered()
        first, second = server.got
    pair = base64.b64encode(f"ofu:{SECRET}".encode()).decode()
    assert first.headers["Authorization"] == f"Basic {pair}"
    assert (first.headers["X-Plain"], first.headers["X-Team"]) == ("1", "nlp")
    assert second.headers["Authorization"] == f"Bearer {SECRET}"


def test_a_secret_that_is_replaced_is_used_at_the_next_attempt(tmp_path: Path) -> None:
    token = tmp_path / "token"
    written = hook("http://x", http_config={"authorization": {"credentials_file": str(token)}})
    assert sent(written) == Unavailable(f"{token}: No such file or directory")
    with http_server() as server:
        http = {"authorization": {"credentials_file": str(token)}}
        for value in ("one", "two"):
            token.write_text(value)
            assert sent(hook(server.url, http_config=http)) == Delivered()
        assert [g.headers["Authorization"] for g in server.got] == ["Bearer one", "Bearer two"]


def test_a_pagerduty_incident_is_triggered_and_resolved_under_one_key() -> None:
    config = {"routing_key_env": "KEY", "severities": {"error": "critical"}}
    with http_server(Reply(202, b"{}", JSON), Reply(202, b"{}", JSON)) as server:
        receiver = {"name": "ops", "pagerduty_configs": [{**config, "url": server.url}]}
        written = settings(receivers=[receiver])
        transport = integration(written).connect(VirtualClock(NOW_S), {"KEY": SECRET})
        alert = opened(finding("1", severity="error", attributes={"host.name": "n1"}))
        with closing(transport):
            for _ in range(2):
                kept = body(written, Notification("ops", "k" * 999, {}, [alert], NOW_S))
                assert SECRET not in kept.raw().decode()
                assert transport.send(kept, 5) == Delivered()
                ended(alert, NOW_S)
        trigger, resolve = (json.loads(got.raw) for got in server.got)
    assert (trigger["event_action"], resolve["event_action"]) == ("trigger", "resolve")
    assert trigger["dedup_key"] == resolve["dedup_key"]
    assert len(trigger["dedup_key"]) <= 255
    assert trigger["routing_key"] == resolve["routing_key"] == SECRET
    assert trigger["payload"]["severity"] == "critical"
    assert trigger["payload"]["source"] == "n1"
    assert trigger["payload"]["summary"].startswith("ERROR 1 on n1 since 07:50 UTC")


def am_transport(url: str, clock: VirtualClock, **http: object) -> Transport:
    written = settings(alertmanager={"servers": [url], "http_config": http})
    return servers_of(written.alertmanager)[0].connect(clock, {})


def am_body(count: int = 1) -> Body:
    alerts = [opened(finding(str(i))) for i in range(count)]
    wire = [msgspec.json.encode(posted(a, {"cluster": "a"}, MessageOptions())) for a in alerts]
    (body,) = bodies_of(wire)
    return body


def test_a_batch_that_waited_lives_four_resendings_from_when_it_is_sent() -> None:
    clock, body = VirtualClock(NOW_S), am_body()
    clock.advance(7200)
    with http_server() as server:
        with closing(am_transport(f"{server.url}/prefix/", clock)) as transport:
            assert transport.send(body, 5.0) == Delivered()
        (got,) = server.got
    (alert,) = json.loads(got.raw)
    assert got.path == "/prefix/api/v2/alerts"
    assert alert["endsAt"] == "2027-01-15T10:04:00.000Z"
    assert alert["labels"]["cluster"] == "a"


def test_an_end_is_sent_as_it_was_however_late() -> None:
    alert = opened(finding("1"))
    ended(alert, NOW_S)
    (body,) = bodies_of([msgspec.json.encode(posted(alert, {}, MessageOptions()))])
    with http_server() as server:
        with closing(am_transport(server.url, VirtualClock(NOW_S + 7200))) as transport:
            assert transport.send(body, 5.0) == Delivered()
        assert json.loads(server.got[0].raw)[0]["endsAt"] == "2027-01-15T08:00:00.000Z"


@pytest.mark.parametrize(
    "url",
    [
        f"slack://{SECRET}/b/c",
        f"https://user:{SECRET}@host/x",
        f"https://host/{SECRET}/x",
        f"https://host/x?token={SECRET}&b=c",
        f"https://host/x#{SECRET}%20",
    ],
)
def test_what_is_secret_in_a_url_is_hidden_wherever_it_turns_up(url: str) -> None:
    assert redacted(f"host said {SECRET} to {url}", secrets_of_url(url)).count(SECRET) == 0
    assert shown_url("https://u:p@host/x?k=v") == "https://host/x"


def test_a_batch_that_is_too_large_is_halved() -> None:
    with closing(am_transport("http://x", VirtualClock(NOW_S))) as transport:
        left, right = transport.halves(am_body(5)) or pytest.fail("not halved")
        assert [len(decoded(half.raw())) for half in (left, right)] == [2, 3]
        assert transport.halves(am_body(1)) is None


def test_a_webhook_that_takes_only_so_much_gets_it_in_parts_and_nothing_is_lost() -> None:
    with http_server(Reply(413), Reply(413)) as server, live(hook(server.url)) as r:
        alerts = [opened(finding(str(i))) for i in range(5)]
        r.put(Notification("ops", "k", {}, alerts, NOW_S, id="msg_1"))
        (sender,) = r.delivery.senders
        while sender.step() is not None:
            pass
        parts = [json.loads(got.raw) for got in server.got[2:]]
        assert [len(part["alerts"]) for part in parts] == [1, 1, 3]
        assert {part["groupKey"] for part in parts} == {"k"}
        assert len({got.headers["webhook-id"] for got in server.got[2:]}) == 3
        assert sender.stats().sent == 5


@dataclass
class Live:
    outbox: Outbox
    clock: VirtualClock
    delivery: Delivery
    observed: list[tuple[str, str, int]]
    written: RouteSettings

    def put(self, notification: Notification | None = None, queue: str = WEBHOOK) -> None:
        kept = body(self.written, notification or note())
        self.outbox.queues[queue].put(kept, Priority.EVENTS)


@contextmanager
def live(written: RouteSettings, path: Path | None = None) -> Iterator[Live]:
    """Senders are stepped by the test, in virtual time."""
    clock, observed = VirtualClock(NOW_S), list[tuple[str, str, int]]()
    observe = lambda *outcome: observed.append(outcome)  # noqa: E731 - collects
    with closing(Outbox(path, queue_limits(written), clock, observe)) as outbox:
        delivery = Delivery(written, outbox, clock, {}, observe)
        yield Live(outbox, clock, delivery, observed, written)
        for sender in delivery.senders:
            for transport in sender._transports.values():
                transport.close()


def test_failures_of_every_kind_in_a_row_lose_nothing_and_repeat_nothing() -> None:
    replies = [Reply(500), Reply(reset=True), Reply(302), Reply(429), Reply(401), Reply(200)]
    with http_server(*replies) as server, live(hook(server.url)) as r:
        r.put()
        (sender,) = r.delivery.senders
        while (wait_s := sender.step()) is not None:
            r.clock.advance(wait_s)
        assert len(server.got) == 6
        assert len({got.headers["webhook-id"] for got in server.got}) == 1
        assert len({got.raw for got in server.got}) == 1
        stats = sender.stats()
        assert (stats.sent, stats.retries, stats.dropped, stats.error) == (1, 5, {}, "")


def test_what_nobody_takes_is_given_up_after_max_age_with_a_count_and_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with http_server(*[Reply(503)] * 99) as server, live(hook(server.url)) as r:
        r.put()
        (sender,) = r.delivery.senders
        sender.step()
        r.clock.advance(6 * 3600 + 1)
        assert sender.step() is None
        assert (WEBHOOK, "dropped", 1) in r.observed
    assert (
        f"export {WEBHOOK}: 1 events or notifications given up so far (expired)" in caplog.messages
    )


def test_what_waits_is_there_after_a_restart_and_holds_no_secret(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET)
    (tmp_path / "url").write_text(f"http://127.0.0.1:1/{SECRET}")
    box = tmp_path / "outbox.sqlite"
    config = {
        "url_file": str(tmp_path / "url"),
        "signing_secret_file": str(tmp_path / "key"),
    }
    written = settings(receivers=[{"name": "ops", "webhook_configs": [config]}], receiver="ops")
    with live(written, box) as r:
        r.put()
        assert r.delivery.senders[0].step() == 0.0
    with http_server() as server:
        (tmp_path / "url").write_text(f"{server.url}/{SECRET}")
        with live(written, box) as r:
            batch = r.outbox.queues[WEBHOOK].take()
            assert batch is not None
            assert SECRET.encode() not in gzip.decompress(batch.body.gzipped)
            r.outbox.queues[WEBHOOK].put_back(batch)
            r.delivery.senders[0].step()
            assert [got.path for got in server.got] == [f"/{SECRET}"]


def test_a_dead_receiver_delays_no_other() -> None:
    stuck = threading.Event()
    with http_server(*[Reply(wait=stuck)] * 9) as dead, http_server() as alive:
        hooks = [{"url": server.url} for server in (dead, alive)]
        written = settings(receivers=[{"name": "ops", "webhook_configs": hooks}], receiver="ops")
        with live(written) as r:
            for queue in r.outbox.queues:
                r.put(queue=queue)
            arrived = threading.Event()
            alive.answer = told(alive.answer, arrived)  # type: ignore[method-assign]
            r.delivery.start()
            assert arrived.wait(HANGS_S)
            stuck.set()
            assert r.delivery.shutdown(HANGS_S) == 0


def told(answer: Callable[..., None], arrived: threading.Event) -> Callable[..., None]:
    def answered(handler: object) -> None:
        answer(handler)
        arrived.set()

    return answered


@pytest.mark.parametrize(
    "reply",
    [
        Reply(500, SECRET.encode(), JSON),
        Reply(400, base64.b64encode(f"ofu:{SECRET}".encode()), JSON),
        Reply(302, b"", {**JSON, "Location": f"http://elsewhere/{SECRET}"}),
        Reply(reset=True),
        None,
    ],
    ids=["echoed", "echoed in base64", "in a redirect", "reset", "nobody there"],
)
def test_no_secret_is_in_any_log_or_status(reply: Reply | None, tmp_path: Path) -> None:
    for name, text in (("pass", SECRET), ("sign", f"sign-{SECRET}"), ("head", f"head-{SECRET}")):
        (tmp_path / name).write_text(text)
    with everything_logged() as lines, maybe(reply) as url:
        (tmp_path / "url").write_text(f"{url}/services/{SECRET}?token={SECRET}")
        config = {
            "url_file": str(tmp_path / "url"),
            "signing_secret_file": str(tmp_path / "sign"),
            "headers_files": {"X-Key": str(tmp_path / "head")},
            "http_config": {
                "basic_auth": {"username": "ofu", "password_file": str(tmp_path / "pass")}
            },
        }
        written = settings(receivers=[{"name": "ops", "webhook_configs": [config]}], receiver="ops")
        with live(written) as r:
            r.put()
            r.delivery.senders[0].step()
            status = repr(r.delivery.stats())
    assert any("webhook-0" in line for line in lines)
    for text in (*lines, status, repr(written)):
        assert SECRET not in text
        assert base64.b64encode(f"ofu:{SECRET}".encode()).decode() not in text


@contextmanager
def maybe(reply: Reply | None) -> Iterator[str]:
    if reply is None:
        yield "http://127.0.0.1:1"
        return
    with http_server(reply) as server:
        yield server.url


def test_a_url_that_is_none_is_told_without_its_words(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(f"http://[{SECRET}")
    config = {"url_file": str(tmp_path / "url")}
    outcome = sent(settings(receivers=[{"name": "ops", "webhook_configs": [config]}]))
    assert isinstance(outcome, Unavailable)
    assert SECRET not in outcome.message
