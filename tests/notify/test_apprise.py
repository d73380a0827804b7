"""Chat and mail through the real Apprise, to a mail server and a web server on loopback."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import pytest

from otel_ofu.model import RankedCause
from otel_ofu.model.clock import VirtualClock
from otel_ofu.net.secrets import Secret
from otel_ofu.net.settings import secret_mistakes
from otel_ofu.notify.alert import Notification, ended, opened
from otel_ofu.notify.apprise import url_problem
from otel_ofu.outbox.outcome import Delivered, Outcome, Unavailable
from tests.export.servers import Reply, http_server
from tests.notify.rig import NOW_S, body, everything_logged, finding, integration, settings
from tests.notify.smtp import mail_server

# Apprise imports it where it is still there.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

SECRET = "s3cr3t-planted-value"
CAUSE = RankedCause("x", "Data *loader*", 0.8, ["CPU 97 % & busy"], next_steps=["run `top -b`"])


def send(url: str, form: str = "markdown", *, over: bool = False) -> Outcome:
    receiver = {"name": "ops", "apprise_configs": [{"url_env": "URL", "format": form}]}
    written = settings(receivers=[receiver])
    alert = opened(
        finding("7", each="job", causes=[CAUSE], facts={"ofu": 0.11, "ofu_before": 0.43})
    )
    if over:
        ended(alert, NOW_S)
    kept = body(written, Notification("ops", "k", {}, [alert], NOW_S))
    with closing(integration(written).connect(VirtualClock(NOW_S), {"URL": url})) as transport:
        return transport.send(kept, 5.0)


def mail(port: int, more: str = "") -> str:
    return f"mailto://127.0.0.1:{port}?from=ofu@x.org&to=ops@x.org&mode=insecure{more}"


def test_a_mail_has_the_headline_as_subject_and_the_message_as_body() -> None:
    with mail_server() as server:
        assert send(mail(server.port, "&format=text"), "text") == Delivered()
        (got,) = server.mails
    subject = "WARNING job 7 since 07:50 UTC (10 min): OFU 11 % now, 43 % before. LowOfu"
    assert "".join(str(got["Subject"]).splitlines()) == subject
    assert got["To"] == "ops@x.org"
    text = got.get_payload(decode=True)
    assert isinstance(text, bytes)
    assert "Likely cause: Data *loader* (80 %)\n- CPU 97 % & busy" in text.decode().replace(
        "\r", ""
    )


def test_a_mail_in_html_has_markup_and_escaped_values() -> None:
    with mail_server() as server:
        assert send(mail(server.port, "&format=html"), "html") == Delivered()
        (got,) = server.mails
    parts = [p.get_payload(decode=True) for p in got.walk() if p.get_content_type() == "text/html"]
    (page,) = [p.decode() for p in parts if isinstance(p, bytes)]
    assert "<strong>Data *loader*</strong>" in page
    assert "<li>CPU 97 % &amp; busy</li>" in page
    assert "<code>top -b</code>" in page


def test_a_mail_server_that_refuses_is_tried_again_later() -> None:
    with mail_server("451 greylisted") as server:
        assert isinstance(send(mail(server.port)), Unavailable)
        assert server.mails == []
        assert send(mail(server.port)) == Delivered()


def test_chat_gets_the_kind_of_news() -> None:
    with http_server(*[Reply(200, b"{}", {})] * 2) as server:
        url = f"json://127.0.0.1:{server.port}/{SECRET}"
        assert send(url) == Delivered()
        assert send(url, over=True) == Delivered()
        first, second = (json.loads(got.raw) for got in server.got)
    assert (first["type"], second["type"]) == ("warning", "success")
    assert second["title"].startswith("RESOLVED job 7 after 10 min, since 07:50 UTC")


def test_a_failure_is_told_without_the_url() -> None:
    with everything_logged() as lines, http_server(Reply(500, SECRET.encode(), {})) as server:
        outcome = send(f"json://u:{SECRET}@127.0.0.1:{server.port}/{SECRET}?x={SECRET}")
    assert isinstance(outcome, Unavailable)
    assert "not taken" in outcome.message
    assert "500" in outcome.message
    assert SECRET not in outcome.message
    assert SECRET not in "\n".join(lines)


@pytest.mark.parametrize("url", [f"nothing://{SECRET}", SECRET, "http://["])
def test_a_url_that_apprise_does_not_know_is_a_problem_and_not_told(url: str) -> None:
    assert url_problem(url) == "a URL that Apprise does not support"
    assert send(url) == Unavailable(
        "environment variable URL holds a URL that Apprise does not support"
    )


def test_a_url_that_is_not_there_is_told_by_its_place(tmp_path: Path) -> None:
    assert send("") == Unavailable("environment variable URL is empty")


def test_where_apprise_is_missing_the_mistake_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    file = tmp_path / "sl"
    file.write_text("slack://a/b/c")
    ((_, why),) = secret_mistakes(Secret(str(file), "", {}), "url", url_problem)
    assert why == (
        f"{file} holds a URL for Apprise, which is not installed: pip install 'otel-ofu[notify]'"
    )
