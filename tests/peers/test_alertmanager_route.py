"""What real Alertmanagers see of the router: groups, inhibition, silences, ends, restarts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from otel_ofu.model import Finding, RankedCause
from otel_ofu.model.clock import SystemClock
from otel_ofu.notify import Delivery, Router, queue_limits, send_test
from otel_ofu.notify.settings import RouteSettings
from otel_ofu.outbox.queues import Outbox
from tests.export.servers import HttpServer, http_server
from tests.notify.rig import finding, settings
from tests.peers.peer import run_tool
from tests.peers.processes import Alertmanager
from tests.waiting import HANGS_S, wait_until

pytestmark = pytest.mark.peer

Make = Callable[..., Alertmanager]
CAUSE = RankedCause("loader", "Slow loader", 0.8, ["CPU 97 %"], next_steps=["Raise `num_workers`."])

RESEND = "700ms"
LIFE_S = 3.0  # longer than a sending lives, which is four times that


@dataclass
class Agent:
    router: Router
    delivery: Delivery
    outbox: Outbox

    def handle(self, *findings: Finding) -> None:
        self.router.handle(findings)

    def until(self, ask: Callable[[], Any], what: str) -> Any:  # noqa: ANN401 - what `ask` gives
        """Ticks as an agent does, until the answer is truthy."""

        def ticked() -> Any:  # noqa: ANN401 - as above
            self.router.tick(time.time())
            return ask()

        return wait_until(ticked, what)

    def settled(self) -> bool:
        return all(not len(queue) for queue in self.outbox.queues.values())


@contextmanager
def agent(written: RouteSettings, state_dir: Path | None = None) -> Iterator[Agent]:
    clock = SystemClock()
    path = state_dir / "outbox.sqlite" if state_dir else None
    with closing(Outbox(path, queue_limits(written), clock)) as outbox:
        router = Router(written, outbox, clock, state_dir)
        delivery = Delivery(written, outbox, clock, {})
        delivery.start()
        try:
            yield Agent(router, delivery, outbox)
        finally:
            delivery.shutdown(HANGS_S)
            router.close()


def to(*servers: Alertmanager, resend: str = "1m", **more: object) -> RouteSettings:
    urls = [server.url for server in servers]
    return settings(alertmanager={"servers": urls, "resend_delay": resend, **more})


def now(name: str = "1", kind: Any = "opened", **more: Any) -> Finding:  # noqa: ANN401 - passed on
    at_s = time.time()
    return finding(name, kind, **{"at_s": at_s, "since_s": at_s - 60, **more})


def notifying(server: HttpServer, **route: object) -> Mapping[str, object]:
    """An Alertmanager that tells our web server, at once."""
    return {
        "route": {
            "receiver": "hook",
            "group_by": ["ofu_job_id"],
            "group_wait": "100ms",
            "group_interval": "300ms",
            **route,
        },
        "receivers": [{"name": "hook", "webhook_configs": [{"url": server.url}]}],
    }


def gone(server: Alertmanager) -> bool:
    return not server.alerts()


def states(server: HttpServer) -> list[str]:
    return [json.loads(got.raw)["status"] for got in server.got]


def names(alerts: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(alert["labels"]["hw_id"] for alert in alerts)


def test_an_alert_is_on_both_servers_with_its_identity_causes_and_link(alertmanager: Make) -> None:
    servers = alertmanager(), alertmanager()
    finding = now(
        "GPU-1",
        attributes={"ofu.job.id": "7", "host.name": "n1"},
        causes=[CAUSE],
        facts={"ofu": 0.11},
        value=0.11,
        link="https://docs.example/low-ofu",
    )
    with agent(to(*servers, labels={"cluster": "a"})) as a:
        a.handle(finding)
        for server in servers:
            (alert,) = a.until(server.alerts, "the alert")
            assert alert["labels"] == {
                "alertname": "LowOfu", "severity": "warning", "ofu_entity": "gpu",
                "hw_id": "GPU-1", "ofu_job_id": "7", "host_name": "n1", "cluster": "a",
            }  # fmt: skip
            assert alert["generatorURL"] == "https://docs.example/low-ofu"
            assert alert["annotations"]["causes"] == "Slow loader (80 %)"
            assert "Likely cause: Slow loader" in alert["annotations"]["description"]
        a.handle(now("GPU-1", "resolved", attributes={"other": "attributes"}))
        for server in servers:
            a.until(partial(gone, server), "the end")


def test_groups_are_those_of_jobs(alertmanager: Make) -> None:
    server = alertmanager(
        {
            "route": {"receiver": "nobody", "group_by": ["ofu_job_id"]},
            "receivers": [{"name": "nobody"}],
        }
    )
    with agent(to(server)) as a:
        a.handle(*(now(str(i), attributes={"ofu.job.id": str(i % 2)}) for i in range(6)))
        a.until(lambda: len(server.alerts()) == 6, "all alerts")
        groups = {g["labels"]["ofu_job_id"]: names(g["alerts"]) for g in server.groups()}
    assert groups == {"0": ["0", "2", "4"], "1": ["1", "3", "5"]}


def test_a_job_inhibits_its_gpus_by_alertmanagers_own_rules(alertmanager: Make) -> None:
    server = alertmanager(
        {
            **Alertmanager.SILENT,
            "inhibit_rules": [
                {
                    "source_matchers": ['ofu_entity="job"'],
                    "target_matchers": ['ofu_entity="gpu"'],
                    "equal": ["ofu_job_id"],
                }
            ],
        }
    )
    with agent(to(server)) as a:
        a.handle(
            now("7", each="job"),
            now("1", attributes={"ofu.job.id": "7"}),
            now("2", attributes={"ofu.job.id": "8"}),
        )
        a.until(lambda: inhibited(server) == ["1"], "the inhibition")


def inhibited(server: Alertmanager) -> list[str]:
    return names([alert for alert in server.alerts() if alert["status"]["inhibitedBy"]])


def test_a_silence_holds_over_resendings(alertmanager: Make, amtool: Path) -> None:
    server = alertmanager()
    run_tool(
        "amtool", "silence", "add", "--alertmanager.url", server.url,
        "--author", "test", "--comment", "test", "hw_id=1",
    )  # fmt: skip
    with agent(to(server, resend="100ms")) as a:
        a.handle(now("1"), now("2"))
        a.until(lambda: len(server.alerts()) == 2, "both alerts")
        began = server.alerts()[0]["updatedAt"]
        a.until(lambda: server.alerts()[0]["updatedAt"] != began, "a resending")
        silenced = [alert for alert in server.alerts() if alert["status"]["silencedBy"]]
        assert names(silenced) == ["1"]


def test_an_alert_goes_on_while_it_is_resent_and_ends_when_the_agent_is_gone(
    alertmanager: Make,
) -> None:
    server = alertmanager()
    with agent(to(server, resend=RESEND)) as a:
        a.handle(now("1"))
        (first,) = a.until(server.alerts, "the alert")
        over = time.time() + LIFE_S
        a.until(lambda: time.time() > over or not server.alerts(), "the life of a sending")
        (last,) = server.alerts()
        assert last["fingerprint"] == first["fingerprint"]
        assert last["startsAt"] == first["startsAt"]
    wait_until(lambda: not server.alerts(), "the end of what nobody vouches for")


def test_a_restart_of_the_agent_is_no_news(alertmanager: Make, tmp_path: Path) -> None:
    with http_server() as hook:
        server = alertmanager(notifying(hook))
        written = to(server, resend=RESEND)
        with agent(written, tmp_path) as a:
            a.handle(now("1", attributes={"ofu.job.id": "7"}))
            a.until(lambda: states(hook) == ["firing"], "the notification")
        with agent(written, tmp_path) as a:
            over = time.time() + LIFE_S  # and several group intervals
            a.until(lambda: time.time() > over, "the life of a sending")
            assert states(hook) == ["firing"]
            a.handle(now("1", "resolved"))
            a.until(lambda: states(hook) == ["firing", "resolved"], "the end")


def test_a_server_that_was_away_gets_everything_and_one_that_was_not_is_not_delayed(
    alertmanager: Make,
) -> None:
    here, away = alertmanager(), alertmanager(start=False)
    with agent(to(here, away, resend=RESEND)) as a:
        a.handle(now("1"), now("2"))
        a.until(lambda: len(here.alerts()) == 2, "the alerts on the one that is there")
        a.handle(now("2", "resolved"))
        a.until(lambda: len(here.alerts()) == 1, "the end on the one that is there")
        away.start()
        a.until(lambda: names(away.alerts()) == ["1"], "the state on the one that was away")
        a.until(a.settled, "empty queues")


def test_a_server_that_lost_its_memory_learns_again_and_notifies_once(alertmanager: Make) -> None:
    with http_server() as hook:
        server = alertmanager(notifying(hook, repeat_interval="1h"))
        with agent(to(server, resend=RESEND)) as a:
            a.handle(now("1", attributes={"ofu.job.id": "7"}))
            a.until(lambda: states(hook) == ["firing"], "the notification")
            a.until(lambda: server.flushes() >= 2, "the record of the notification")
            server.restart()
            a.until(server.alerts, "the alert again")
            a.handle(now("1", "resolved"))
            a.until(lambda: states(hook)[-1:] == ["resolved"], "the end")
            assert states(hook) == ["firing", "resolved"]


def test_labels_of_every_kind_are_taken(alertmanager: Make) -> None:
    server = alertmanager()
    odd = {"k8s.pod.name": "a/b ü", "9 lives": "x", "empty": "", "n": 3, "ok": True}
    with agent(to(server)) as a:
        a.handle(now("1", attributes=odd, summary="\x00 \ud800 <>"), now("2"))
        a.until(lambda: names(server.alerts()) == ["1", "2"], "both alerts")
        assert a.delivery.stats()[0].dropped == {}


def test_a_sample_arrives(alertmanager: Make) -> None:
    server = alertmanager()
    (result,) = send_test(to(server), "alertmanager", SystemClock(), {})
    assert result.problem == ""
    assert [alert["labels"]["alertname"] for alert in server.alerts()] == ["OtelOfuTest"]
