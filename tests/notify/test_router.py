"""Grouping, incidents, muting and the cap on virtual time: what a receiver is told, and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from msgspec.structs import replace

from otel_ofu.model import Finding, RankedCause
from tests.notify.rig import NOW_S, finding, rig

AM = "route/alertmanager/127.0.0.1:9093"
SERVERS = {"alertmanager": {"servers": ["http://127.0.0.1:9093"]}}


def test_a_group_is_told_after_group_wait_and_once() -> None:
    with rig() as r:
        r.handle(finding("1"), finding("2"))
        r.run(29)
        assert r.names() == []
        r.run(3600)
        assert r.names() == [("firing", ["f:1", "f:2"])]


def test_news_in_a_group_waits_for_group_interval_and_brings_all_that_fires() -> None:
    with rig() as r:
        r.handle(finding("1"))
        r.run(31)
        r.handle(finding("2"))
        r.run(298)
        assert r.names() == [("firing", ["f:1"])]
        r.run(2)
        assert r.names() == [("firing", ["f:1", "f:2"])]


def test_what_goes_on_is_told_again_after_repeat_interval() -> None:
    with rig({"repeat_interval": "1h"}) as r:
        r.handle(finding("1"))
        r.run(3 * 3600 + 60)
        assert r.names() == [("firing", ["f:1"])] * 4


def test_an_end_is_told_to_those_who_were_told_the_beginning() -> None:
    with rig() as r:
        r.handle(finding("1"))
        r.run(31)
        r.handle(finding("1", "resolved", at_s=NOW_S + 60, reason="recovered"))
        r.run(600)
        assert r.names() == [("firing", ["f:1"]), ("resolved", ["r:1"])]
        assert r.router.stats().groups == 0


def test_what_ends_within_group_wait_is_told_nobody() -> None:
    with rig() as r:
        r.handle(finding("1"))
        r.run(10)
        r.handle(finding("1", "resolved"))
        r.run(600)
        assert r.names() == []


def test_a_receiver_without_send_resolved_hears_no_ends() -> None:
    receiver = {"name": "ops", "stdout_configs": [{"send_resolved": False}]}
    with rig({"receivers": [receiver]}) as r:
        r.handle(finding("1"))
        r.run(31)
        r.handle(finding("1", "resolved"))
        r.run(600)
        assert r.names() == [("firing", ["f:1"])]


def test_one_that_comes_back_is_told_anew() -> None:
    with rig() as r:
        r.handle(finding("1"))
        r.run(31)
        r.handle(finding("1", "resolved"))
        r.run(301)
        r.handle(finding("1", at_s=NOW_S + 400, since_s=NOW_S + 390))
        r.run(31)
        assert [status for status, _ in r.names()] == ["firing", "resolved", "firing"]


def test_one_that_ends_and_comes_back_before_anybody_looks_is_no_news() -> None:
    with rig() as r:
        r.handle(finding("1"))
        r.run(31)
        r.handle(finding("1", "resolved"), finding("1", at_s=NOW_S + 60))
        r.run(1000)
        assert r.names() == [("firing", ["f:1"])]


def test_groups_are_by_job_and_no_job_is_a_group_too() -> None:
    with rig() as r:
        for gpu, job in (("1", "7"), ("2", "8"), ("3", "7"), ("4", "")):
            r.handle(finding(gpu, attributes={"ofu.job.id": job} if job else {}))
        r.run(31)
        told = r.notified()
        assert [n["groupLabels"] for n in told] == [{"ofu_job_id": "7"}, {"ofu_job_id": "8"}, {}]
        assert [len(n["alerts"]) for n in told] == [2, 1, 1]


def test_a_shadow_finding_never_leaves() -> None:
    with rig(SERVERS) as r:
        r.handle(finding("1", shadow=True))
        r.run(100)
        assert r.notified() == r.notified(AM) == []


def test_an_update_changes_what_is_told_and_is_no_news() -> None:
    with rig() as r:
        r.handle(finding("1"))
        r.run(10)
        r.handle(finding("1", "updated", summary="now worse"))
        r.run(900)
        (told,) = r.notified()
        assert told["alerts"][0]["annotations"]["summary"] == "now worse"


def test_a_severity_that_rises_ends_one_alert_and_opens_another() -> None:
    with rig(SERVERS) as r:
        r.handle(finding("1"))
        r.run(31)
        r.handle(finding("1", "updated", severity="critical", at_s=NOW_S + 31))
        r.run(301)
        assert r.names() == [("firing", ["f:1"]), ("firing", ["f:1", "r:1"])]
        (first, second) = r.notified(AM)[:2]
        assert [(a["labels"]["severity"], "endsAt" in a) for a in second] == [
            ("warning", True),
            ("critical", False),
        ]
        assert "endsAt" not in first[0]


def test_attributes_that_change_while_it_fires_do_not_change_its_identity() -> None:
    with rig(SERVERS) as r:
        r.handle(finding("1", attributes={"ofu.job.name": "early"}))
        r.handle(finding("1", "resolved", attributes={"ofu.job.name": "late", "hw.name": "x"}))
        opened, ended = r.notified(AM)
        assert opened[0]["labels"] == ended[0]["labels"]


SEVEN = "JobSlow/job/7"


def test_what_a_firing_alert_covers_is_not_notified_and_what_is_left_at_its_end_is() -> None:
    with rig({"group_by": ["alertname"]}) as r:
        r.handle(
            finding("1", incident=SEVEN),
            finding("2"),
            finding("7", each="job", rule="JobSlow"),
        )
        r.run(31)
        assert r.names() == [("firing", ["f:2"]), ("firing", ["f:7"])]
        r.handle(finding("7", "resolved", each="job", rule="JobSlow"))
        r.run(301)
        assert r.names() == [("firing", ["f:1", "f:2"]), ("resolved", ["r:7"])]


def test_the_end_of_one_that_was_told_and_then_covered_is_told() -> None:
    with rig({"group_by": ["alertname"]}) as r:
        r.handle(finding("1"))
        r.run(31)
        r.handle(finding("7", each="job", rule="JobSlow"), finding("1", "updated", incident=SEVEN))
        r.run(31)
        r.handle(finding("1", "resolved", incident=SEVEN))
        r.run(301)
        assert r.names() == [("firing", ["f:1"]), ("firing", ["f:7"]), ("resolved", ["r:1"])]


NIGHT = {
    "time_intervals": [
        {
            "name": "morning",
            "time_intervals": [{"times": [{"start_time": "08:00", "end_time": "09:00"}]}],
        }
    ],
    "routes": [{"matchers": ['severity="warning"'], "mute_time_intervals": ["morning"]}],
}


def test_a_muted_route_tells_when_the_time_is_over() -> None:
    with rig(NIGHT) as r:
        r.handle(finding("1"), finding("2", severity="critical"))
        r.run(3500)
        assert r.names() == [("firing", ["f:2"])]
        r.run(400)
        assert r.names() == [("firing", ["f:1"])]


def test_an_end_in_muted_time_is_told_afterwards_if_the_beginning_was() -> None:
    with rig(NIGHT, clock=None) as r:
        r.clock.set(NOW_S - 120)
        r.handle(finding("1"), finding("2"))
        r.run(60)
        r.handle(finding("1", "resolved"))
        r.run(3600)
        assert r.names() == [("firing", ["f:1", "f:2"])]
        r.run(500)
        assert r.names() == [("firing", ["f:2", "r:1"])]


def test_first_match_unless_continue_and_the_default_for_the_rest() -> None:
    names = ("ops", "audit", "nlp", "pager")
    receivers = [{"name": name, "stdout_configs": [dict[str, str]()]} for name in names]
    routes = [
        {"matchers": ["team=~.+"], "receiver": "audit", "continue": True},
        {"matchers": ["team=nlp", "severity=critical"], "receiver": "pager"},
        {"matchers": ["team=nlp"], "receiver": "nlp"},
    ]
    with rig({"receivers": receivers, "routes": routes}) as r:
        r.handle(
            finding("1", labels={"team": "nlp"}),
            finding("2", labels={"team": "nlp"}, severity="critical"),
            finding("3"),
        )
        r.run(31)
        told = {n: r.names(f"route/{n}/stdout-0") for n in names}
        assert told == {
            "ops": [("firing", ["f:3"])],
            "audit": [("firing", ["f:2", "f:1"])],
            "nlp": [("firing", ["f:1"])],
            "pager": [("firing", ["f:2"])],
        }


def test_more_groups_than_the_cap_are_one_summary_that_ends_with_the_last() -> None:
    with rig({"max_groups": 3}) as r:
        jobs = [finding(str(i), each="job") for i in range(100)]
        r.handle(*jobs)
        r.run(31)
        told = r.notified()
        assert [len(n["alerts"]) for n in told] == [1, 1, 1, 97]
        assert told[3]["groupLabels"] == {}
        r.handle(*(replace(job, kind="resolved") for job in jobs[3:]))
        r.run(301)
        assert [(n["status"], len(n["alerts"])) for n in r.notified()] == [("resolved", 97)]


def test_alertmanagers_hear_every_change_at_once_and_all_again_each_minute() -> None:
    with rig(SERVERS) as r:
        r.handle(finding("1"))
        r.handle(finding("2"))
        assert [[a["labels"]["hw_id"] for a in batch] for batch in r.notified(AM)] == [["1"], ["2"]]
        r.run(1)
        assert [len(batch) for batch in r.notified(AM)] == [2]
        r.run(59)
        assert r.notified(AM) == []
        r.run(2)
        assert [len(batch) for batch in r.notified(AM)] == [2]


def test_an_end_is_sent_to_alertmanagers_for_a_quarter_of_an_hour() -> None:
    with rig(SERVERS) as r:
        r.handle(finding("1"), finding("1", "resolved"))
        for _ in range(14):
            r.run(61)
            assert all(a["endsAt"] for batch in r.notified(AM) for a in batch)
        r.run(200)
        r.notified(AM)
        r.run(200)
        assert r.notified(AM) == []


def test_while_an_alertmanager_is_away_nothing_piles_up_but_changes() -> None:
    with rig(SERVERS) as r:
        r.handle(finding("1"))
        r.run(3600)
        r.handle(finding("1", "resolved"))
        r.run(3600)
        assert len(r.notified(AM)) == 2


def test_batches_have_at_most_a_thousand_alerts() -> None:
    with rig(SERVERS) as r:
        r.handle(*(finding(str(i)) for i in range(2001)))
        assert [len(batch) for batch in r.notified(AM)] == [1000, 1000, 1]


def test_findings_that_the_engine_no_longer_knows_end() -> None:
    with rig() as r:
        r.handle(finding("1"), finding("2"))
        r.run(31)
        r.router.retain([finding("2").fingerprint])
        r.run(301)
        assert r.names() == [("firing", ["f:1", "f:2"]), ("firing", ["f:2", "r:1"])]


def test_a_clock_that_is_set_back_silences_nobody() -> None:
    with rig(SERVERS) as r:
        r.handle(finding("1"))
        r.run(31)
        r.notified(), r.notified(AM)
        r.clock.set(NOW_S - 86_400)
        r.handle(finding("2", attributes={"ofu.job.id": "9"}))
        r.run(302)
        assert [len(n["alerts"]) for n in r.notified()] == [1]
        assert r.notified(AM) != []


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["opened", "updated", "resolved", "wait"])),
        max_size=25,
    )
)
@profile(deadline=None, max_examples=60)
def test_whatever_happens_what_a_receiver_knows_is_what_fires_in_the_end(
    steps: list[tuple[int, str]],
) -> None:
    firing: set[str] = set()
    known: set[str] = set()
    with rig({"max_groups": 2, "group_by": ["hw_id"]}) as r:
        for number, kind in steps:
            if kind == "wait":
                r.run(100, 20.0)
                continue
            r.handle(finding(str(number), kind))  # type: ignore[arg-type]  # the kinds above
            firing.discard(str(number)) if kind == "resolved" else firing.add(str(number))
        r.run(700, 20.0)
        for notification in r.notified():
            for alert in notification["alerts"]:
                name = alert["labels"]["hw_id"]
                known.add(name) if alert["status"] == "firing" else known.discard(name)
    assert known == firing


@pytest.mark.parametrize("text", ["\ud800 lone", "", "x" * 100_000, "{{headline}}", "\x00\n**b**"])
def test_odd_words_stop_nobody(text: str) -> None:
    with rig(SERVERS) as r:
        odd = finding("1", summary=text, rule=text or "r", attributes={"a b": text})
        fine: Finding = finding("2")
        r.handle(odd, fine)
        r.run(31)
        assert len(r.notified()[0]["alerts"]) == 2
        assert len(r.notified(AM)[0]) == 2


def test_the_end_of_one_that_was_told_and_is_covered_amid_news_is_told() -> None:
    with rig({"group_by": ["alertname"]}) as r:
        r.handle(finding("1"), finding("2"))
        r.run(31)
        covered = finding("1", "updated", incident=SEVEN)
        r.handle(finding("7", each="job", rule="JobSlow"), finding("3"), covered)
        r.run(301)
        r.handle(finding("1", "resolved", incident=SEVEN))
        r.run(301)
        told = [names for _, names in r.names() if "f:7" not in names]
        assert told == [["f:1", "f:2"], ["f:2", "f:3"], ["f:2", "f:3", "r:1"]]


def test_without_send_resolved_an_end_in_a_group_that_goes_on_is_no_news() -> None:
    receiver = {"name": "ops", "stdout_configs": [{"send_resolved": False}]}
    with rig({"receivers": [receiver]}) as r:
        r.handle(finding("1"), finding("2"))
        r.run(31)
        r.handle(finding("1", "resolved"))
        r.run(600)
        assert r.names() == [("firing", ["f:1", "f:2"])]


def test_a_group_whose_time_lies_far_ahead_after_the_clock_was_set_back_is_told() -> None:
    with rig() as r:
        r.handle(finding("1"))
        r.run(31)
        r.clock.set(NOW_S - 86_400)
        r.handle(finding("2"))
        r.run(302)
        assert r.names() == [("firing", ["f:1"]), ("firing", ["f:1", "f:2"])]


def test_one_of_a_summary_that_comes_back_stays_in_the_summary() -> None:
    with rig({"max_groups": 2}) as r:
        *alone, summed = (finding(name, each="job") for name in "abc")
        r.handle(*alone, summed)
        r.run(31)
        r.handle(*(replace(job, kind="resolved") for job in alone))
        r.run(301)
        assert r.router.stats().groups == 1
        r.notified()
        r.handle(replace(summed, kind="resolved"), summed)
        r.run(600)
        assert r.notified() == []


def test_an_end_still_tells_the_causes_that_were_found() -> None:
    causes = [RankedCause("loader", "Slow loader", 0.8)]
    with rig() as r:
        r.handle(finding("1", causes=causes))
        r.run(31)
        r.handle(finding("1", "resolved"))
        r.run(301)
        assert [n["alerts"][0]["annotations"]["causes"] for n in r.notified()] == [
            "Slow loader (80 %)"
        ] * 2


def test_an_end_before_the_beginning_and_empty_labels_are_what_alertmanager_takes() -> None:
    with rig(SERVERS) as r:
        late = finding("1", since_s=NOW_S + 5, attributes={"k8s.pod.name": ""})
        r.handle(late, replace(late, kind="resolved", at_s=NOW_S))
        (alert,) = (a for batch in r.notified(AM) for a in batch)
        assert alert["endsAt"] > alert["startsAt"]
        assert "k8s_pod_name" not in alert["labels"]


def test_a_route_outside_of_its_active_times_is_quiet() -> None:
    night = [{"times": [{"start_time": "09:00", "end_time": "10:00"}]}]
    block = {
        "time_intervals": [{"name": "nine", "time_intervals": night}],
        "routes": [{"active_time_intervals": ["nine"]}],
    }
    with rig(block) as r:
        r.handle(finding("1"))
        r.run(3000)
        assert r.names() == []
        r.run(1000)
        assert r.names() == [("firing", ["f:1"])]
