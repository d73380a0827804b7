"""`route --explain`, `notify --test`, and the settings as users write them."""

from __future__ import annotations

import json

import msgspec
import pytest

from otel_ofu.files.settings import hook, parse_duration
from otel_ofu.model.clock import VirtualClock
from otel_ofu.notify import explain, parse_labels, send_test
from otel_ofu.notify.settings import RouteSettings
from tests.export.servers import Reply, http_server
from tests.notify.rig import NOW_S, settings

BLOCK = {
    "alertmanager": {"servers": ["http://u:pw@am:9093/x?k=v"]},
    "receivers": [
        {"name": "ops", "stdout_configs": [{}], "webhook_configs": [{"url": "http://x"}]},
        {"name": "nlp", "stdout_configs": [{}]},
    ],
    "receiver": "ops",
    "time_intervals": [{"name": "fridays", "time_intervals": [{"weekdays": ["friday"]}]}],
    "routes": [
        {"matchers": ["team=nlp"], "receiver": "nlp", "mute_time_intervals": ["fridays"]},
    ],
}


def test_explain_shows_the_way_and_what_mutes_it() -> None:
    labels = parse_labels('{team="nlp", ofu.entity=gpu, ofu.job.id=7}')
    assert list(explain(settings(**BLOCK), labels, NOW_S)) == [
        'labels     {team="nlp", ofu_entity="gpu", ofu_job_id="7"}',
        "always     Alertmanager http://am:9093/x, which has routes of its own",
        'route      {}/{team="nlp"}',
        "  receiver nlp (stdout-0)",
        '  group    {ofu_job_id="7"}',
        "  notified after 30 s, news every 5 min, again every 4 h",
        "  muted    now, by fridays",
    ]


def test_explain_says_when_nobody_is_told() -> None:
    assert list(explain(settings(), {}, NOW_S))[1:] == ["nowhere    no receiver takes it"]


@pytest.mark.parametrize("text", ["a", "=b", "a=b,c"])
def test_labels_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: name=value,name=value"):
        parse_labels(text)


def test_a_sample_goes_to_each_place_of_a_receiver_and_says_what_came_of_it() -> None:
    with http_server() as good, http_server(Reply(403, b"no", {})) as bad:
        hooks = [{"url": good.url, "send_resolved": True}, {"url": bad.url, "send_resolved": False}]
        written = settings(receivers=[{"name": "ops", "webhook_configs": hooks}], receiver="ops")
        results = send_test(written, "ops", VirtualClock(NOW_S), {})
        assert [(r.endpoint, r.problem) for r in results] == [
            (good.url, ""),
            (bad.url, "HTTP 403 Forbidden: no"),
        ]
        states = [json.loads(got.raw)["status"] for got in good.got]
        assert states == ["firing", "resolved"]
        assert len(bad.got) == 1


def test_a_sample_goes_to_alertmanagers_and_says_of_itself_that_it_is_a_test() -> None:
    with http_server() as server:
        written = settings(alertmanager={"servers": [server.url]})
        (result,) = send_test(written, "alertmanager", VirtualClock(NOW_S), {})
        (alert,) = json.loads(server.got[0].raw)
    assert result.problem == ""
    assert "Nothing is wrong" in alert["annotations"]["summary"]


def test_a_sample_for_nobody_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="unknown receiver 'x'; known: ops, nlp, alertmanager"):
        send_test(settings(**BLOCK), "x", VirtualClock(NOW_S), {})


def test_a_missing_secret_is_a_problem_of_the_sample() -> None:
    receiver = {"name": "pd", "pagerduty_configs": [{"routing_key_env": "KEY"}]}
    (result,) = send_test(settings(receivers=[receiver]), "pd", VirtualClock(NOW_S), {})
    assert result.problem == "environment variable KEY is empty"


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("1h30m", 5400), ("500ms", 0.5)])
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("value", ["30", 30, "1 hour", "-5s", "", None])
def test_what_is_no_duration_is_refused(value: object) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"is not a duration|Expected"):
        msgspec.convert({"group_wait": value}, RouteSettings, dec_hook=hook)


def test_there_is_no_key_for_a_secret_itself() -> None:
    for key in ("password", "routing_key", "url_token"):
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            settings(receivers=[{"name": "x", "pagerduty_configs": [{key: "secret"}]}])
