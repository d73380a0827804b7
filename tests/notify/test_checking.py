"""What is wrong with a route block is found before anybody relies on it, each with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from otel_ofu.files.settings import CheckContext
from otel_ofu.files.settings import mistakes as mistakes_of
from otel_ofu.files.yaml import KEY
from otel_ofu.model.clock import VirtualClock
from otel_ofu.net.tls import certificate_ends_s
from otel_ofu.notify import queue_limits
from otel_ofu.notify.router import Router
from otel_ofu.outbox.queues import Outbox
from tests.notify.rig import NOW_S, settings
from tests.peers.certs import Certificates, make_certificates

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

SECRET = "s3cr3t-planted-value"
OPS = {"name": "ops", "stdout_configs": [{}]}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def mistakes(block: dict[str, Any], environ: dict[str, str] | None = None) -> list[str]:
    """`steps: message` of each."""
    found = mistakes_of(settings(**block), CheckContext(NOW_S, environ or {}))
    return [f"{'.'.join(str(s) for s in steps if s != KEY)}: {why}" for steps, why in found]


def with_receiver(**receiver: object) -> dict[str, Any]:
    return {"receivers": [{"name": "ops", **receiver}], "receiver": "ops"}


def with_routes(*routes: dict[str, object]) -> dict[str, Any]:
    return {"receivers": [OPS], "receiver": "ops", "routes": list(routes)}


def test_the_default_has_no_mistake_and_tells_nobody() -> None:
    assert mistakes({}) == []


GOOD = {
    "alertmanager": {"servers": ["http://a:9093", "https://b/prefix"], "labels": {"cluster": "x"}},
    "receivers": [OPS, {"name": "pager", "webhook_configs": [{"url": "http://h/x"}]}],
    "receiver": "ops",
    "group_by": ["..."],
    "time_intervals": [{"name": "n", "time_intervals": [{"weekdays": ["sunday"]}]}],
    "routes": [
        {"matchers": ['severity="critical"'], "receiver": "pager", "continue": True},
        {"matchers": ['team=~"a|b"', 'team!="b"'], "mute_time_intervals": ["n"]},
        {"matchers": ['team="b"', 'severity!="info"'], "group_by": ["team"]},
        {},
    ],
}


def test_a_good_block_has_no_mistake_and_makes_a_router() -> None:
    assert mistakes(GOOD) == []
    clock = VirtualClock(NOW_S)
    outbox = Outbox(None, queue_limits(settings(**GOOD)), clock)
    Router(settings(**GOOD), outbox, clock).close()
    outbox.close()


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"receivers": [OPS]}, "receiver: a receiver for what no route takes is needed"),
        ({"receiver": "x"}, "receiver: unknown receiver 'x'; none is defined under receivers"),
        ({"receivers": [OPS, OPS], "receiver": "ops"}, "receivers.1.name: the name 'ops' is"),
        (with_routes({"receiver": "x"}), "routes.0.receiver: unknown receiver 'x'; known: ops"),
        (with_routes({"matchers": ["a"]}), "routes.0.matchers.0: 'a' is not a matcher; allowed: "),
        (with_routes({"mute_time_intervals": ["n"]}),
         "routes.0.mute_time_intervals.0: unknown time interval 'n'; none is defined under "),
        ({"time_zone": "Mars"}, "time_zone: 'Mars' is not a known time zone; allowed: "),
        ({"template_file": "/nowhere"}, "template_file: /nowhere: No such file or directory"),
        ({"max_groups": 0}, "max_groups: must be from 1 to 1000000"),
        ({"group_interval": "0s"}, "group_interval: must be from 1ms to 365d"),
        ({"alertmanager": {"servers": ["localhost:9093"]}},
         "alertmanager.servers.0: 'localhost:9093' is not a URL; allowed: http(s)://host[:port][/path]"),
        ({"alertmanager": {"servers": ["http://a", "http://a/"]}},
         "alertmanager.servers.1: the same server is listed twice"),
        ({"alertmanager": {"labels": {"a.b": "x"}}},
         "alertmanager.labels.a.b: 'a.b' is not a label"),
        (with_receiver(webhook_configs=[{}]),
         "receivers.0.webhook_configs.0: one of url, url_file and url_env is needed; given: none"),
        (with_receiver(webhook_configs=[{"url": "ftp://x"}]),
         "receivers.0.webhook_configs.0.url: 'ftp://x' is not a URL"),
        (with_receiver(webhook_configs=[{"url": "http://x:99999"}]),
         "receivers.0.webhook_configs.0.url: 'http://x:99999' is not a URL"),
        (with_receiver(webhook_configs=[{"url_file": "/nowhere"}]),
         "receivers.0.webhook_configs.0.url_file: /nowhere: No such file"),
        (with_receiver(pagerduty_configs=[{}]),
         "receivers.0.pagerduty_configs.0: routing_key_file or routing_key_env is needed"),
        (with_receiver(pagerduty_configs=[{"routing_key_env": "KEY"}]),
         "receivers.0.pagerduty_configs.0.routing_key_env: environment variable KEY is empty"),
        (with_receiver(apprise_configs=[{}]), "receivers.0.apprise_configs.0: url_file or url_env"),
        (with_receiver(webhook_configs=[{"url": "http://x", "http_config": {
            "basic_auth": {"password_env": "P"}}}]),
         "receivers.0.webhook_configs.0.http_config.basic_auth: a password without a username"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_place_and_what_is_allowed(
    block: dict[str, Any], expected: str
) -> None:
    found = mistakes(block, {"P": "x"})
    assert found[0].startswith(expected)
    assert len(found) == 1


def test_all_mistakes_are_told_at_once() -> None:
    block = with_routes({"receiver": "a"}, {"receiver": "b", "matchers": ["="]})
    assert len(mistakes({**block, "time_zone": "x", "max_age": "0s"})) == 5


@pytest.mark.parametrize(
    ("raw", "words"),
    [(b"\xff", "not UTF-8"), (b"{{#first}}", "line 1: {{#first}} is never closed")],
)
def test_a_template_of_no_use_is_named(raw: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "message.tmpl"
    path.write_bytes(raw)
    assert mistakes({"template_file": str(path)}) == [f"template_file: {path}: {words}"]


@pytest.mark.parametrize(
    "config",
    [
        {"webhook_configs": [{"url": f"http://u:{SECRET}@host/x"}]},
        {"webhook_configs": [{"url": f"nothing://host/x?token={SECRET}"}]},
        {"webhook_configs": [{"url_env": "BAD"}]},
        {"webhook_configs": [{"url": "http://x", "signing_secret_env": "SIGN"}]},
        {"apprise_configs": [{"url_env": "BAD"}]},
        {"apprise_configs": [{"url_env": "LINES"}]},
    ],
)
def test_no_mistake_holds_a_secret(config: dict[str, object]) -> None:
    environ = {
        "BAD": f"nothing:/{SECRET}",
        "SIGN": f"whsec_{SECRET}!",
        "LINES": f"{SECRET}\n{SECRET}",
    }
    (found,) = mistakes(with_receiver(**config), environ)
    assert SECRET not in found


def test_an_expired_certificate_is_found(certificates: Certificates) -> None:
    files = {"cert_file": str(certificates.expired.cert), "key_file": str(certificates.expired.key)}
    config = {"url": "https://x", "http_config": {"tls_config": files}}
    (found,) = mistakes(with_receiver(webhook_configs=[config]))
    place = "receivers.0.webhook_configs.0.http_config.tls_config.cert_file: "
    assert found.startswith(f"{place}{certificates.expired.cert}: the certificate expired at 20")


def test_a_certificate_without_its_key_is_found(certificates: Certificates) -> None:
    files = {"cert_file": str(certificates.client.cert), "key_file": str(certificates.server.key)}
    config = {"servers": ["https://x"], "http_config": {"tls_config": files}}
    (found,) = mistakes({"alertmanager": config})
    assert found.startswith("alertmanager.http_config.tls_config: cert_file and key_file")


def test_the_end_of_a_certificate_is_what_a_library_reads(certificates: Certificates) -> None:
    for path in (certificates.ca, certificates.server.cert, certificates.expired.cert):
        read = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
        assert certificate_ends_s(str(path)) == [read.timestamp()]


def test_what_is_no_certificate_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text(
        "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
    )
    with pytest.raises(ValueError, match="no certificate that can be read"):
        certificate_ends_s(str(tmp_path / "x.pem"))
    (tmp_path / "y.pem").write_text("nothing")
    assert certificate_ends_s(str(tmp_path / "y.pem")) == []
