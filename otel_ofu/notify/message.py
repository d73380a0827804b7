"""The message for people: which job, since when and how bad; the likely cause; what to do next.

Enters: a notification. Leaves: a title (the first line) and a body, as text, Markdown or HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

from otel_ofu.model import Finding, RankedCause
from otel_ofu.notify import format as text
from otel_ofu.notify.alert import Alert, Notification
from otel_ofu.notify.template import MessageFormat, Part, names_of, parse_template, written

TEMPLATE = """\
**{{headline}}**

{{#first}}
{{summary}}
{{#ended}}
Ended: {{ended}}.
{{/ended}}
{{#cause}}

Likely cause: **{{title}}** ({{score}})
{{#evidence}}
- {{.}}
{{/evidence}}
{{#against}}
- against it: {{.}}
{{/against}}
{{#unchecked}}
- not checked: {{.}}
{{/unchecked}}

{{remark}}
{{/cause}}
{{#no_cause}}

No known cause fits.
{{/no_cause}}
{{#next}}

Next:
{{#steps}}
- {{.}}
{{/steps}}
{{/next}}
{{#possible}}

Also possible: {{possible}}
{{/possible}}
{{#facts}}

{{facts}}
{{/facts}}
{{#link}}

More: {{link}}
{{/link}}
{{/first}}
{{#also}}

Also:
{{#lines}}
- {{.}}
{{/lines}}
{{#left_out}}
- and {{left_out}} more
{{/left_out}}
{{/also}}
"""

_KNOWN = frozenset(
    {"headline", "first", "also", "lines", "left_out", "alerts", "status", "count"}
    | {"receiver", "group_labels", "external_url", "summary", "ended", "severity", "rule", "whom"}
    | {"since", "lasted", "how_bad", "facts", "link", "labels", "annotations", "possible"}
    | {"cause", "no_cause", "title", "score", "evidence", "against", "unchecked", "remark"}
    | {"next", "steps"}
)
# Starting value: titles of chat and subjects of mail show less.
_MOST_LINE = 300


@dataclass(frozen=True, slots=True)
class Message:
    """`title` is one line of plain text; `body` what follows it."""

    title: str
    body: str


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """`most_alerts`: so many are named, the worst first."""

    zone: tzinfo = UTC
    most_alerts: int = 20
    parts: Sequence[Part] = field(default_factory=lambda: parse_template(TEMPLATE))
    external_url: str = ""


def parse_message_template(template: str) -> Sequence[Part]:
    """ValueError for a template with a mistake, or a name that no message has."""
    parts = parse_template(template)
    unknown = sorted({n.partition(".")[0] for n in names_of(parts) if n != "."} - _KNOWN)
    if unknown:
        raise ValueError(f"unknown name {unknown[0]!r}; known: {', '.join(sorted(_KNOWN))}")
    return parts


def message_of(notification: Notification, options: MessageOptions, form: MessageFormat) -> Message:
    """The first line of the text form is the title; the body is in the form asked for."""
    title, body = written(options.parts, _view(notification, options), form)
    return Message(_short(title, _MOST_LINE), body)


def text_of(alert: Alert, options: MessageOptions) -> str:
    """All of the message about one alert as plain text, as it was when it changed last."""
    alone = Notification("", "", {}, [alert], alert.finding.at_s)
    return "\n".join(written(options.parts, _view(alone, options), "text")).strip()


def headline(alert: Alert, now_s: float, zone: tzinfo) -> str:
    """`CRITICAL job 4242 since 03:02 UTC (1 h 12 min): OFU 11 % now, 43 % before. LowOfu`."""
    finding = alert.finding
    who = text.subject(alert.labels) or (f"{finding.count} findings" if finding.count > 1 else "")
    bad = text.how_bad(finding.facts) or _compared(finding)
    tail = f": {bad}. {finding.rule}" if bad else f": {finding.rule}"
    return " ".join(part for part in (_head(alert), who, _when(alert, now_s, zone)) if part) + tail


def _head(alert: Alert) -> str:
    return alert.labels.get("severity", "").upper() if alert.firing else "RESOLVED"


def _when(alert: Alert, now_s: float, zone: tzinfo) -> str:
    since = text.local_time(alert.starts_s, now_s, zone)
    if alert.ends_s is None:
        return f"since {since} ({text.duration(now_s - alert.starts_s)})"
    return f"after {text.duration(alert.ends_s - alert.starts_s)}, since {since}"


def _compared(finding: Finding) -> str:
    if finding.value is None:
        return ""
    limit = f", threshold {text.number(finding.threshold)}" if finding.threshold is not None else ""
    return f"value {text.number(finding.value)}{limit}"


def _view(notification: Notification, options: MessageOptions) -> dict[str, object]:
    now_s, zone = notification.at_s, options.zone
    alerts = notification.alerts
    views = [_alert_view(alert, now_s, zone) for alert in alerts[: options.most_alerts]]
    lines = [str(view["headline"]) for view in views]
    more = f" (+{len(alerts) - 1} more)" if len(alerts) > 1 else ""
    also = {"lines": lines[1:], "left_out": len(alerts) - len(lines)}
    return {
        "headline": lines[0] + more,
        "first": views[0],
        "also": also if len(alerts) > 1 else None,
        "status": notification.status,
        "count": len(alerts),
        "alerts": views,
        "group_labels": dict(notification.group_labels),
        "receiver": notification.receiver,
        "external_url": options.external_url,
    }


def _alert_view(alert: Alert, now_s: float, zone: tzinfo) -> dict[str, object]:
    finding = alert.finding
    first, rest = (finding.causes[0], finding.causes[1:]) if finding.causes else (None, ())
    steps = list(first.next_steps) if first else []
    return {
        "headline": headline(alert, now_s, zone),
        "summary": finding.summary,
        "ended": "" if alert.firing else (finding.reason or "resolved").replace("_", " "),
        "cause": _cause_view(first) if first else None,
        "no_cause": alert.firing and first is None,
        "next": {"steps": steps} if steps and alert.firing else None,
        "possible": ", ".join(f"{c.title} ({text.percent(c.score)})" for c in rest),
        "facts": ", ".join(text.other_facts(finding.facts, now_s, zone)),
        "link": finding.link or (first.link if first else ""),
        "severity": alert.labels.get("severity", ""),
        "rule": finding.rule,
        "whom": text.subject(alert.labels),
        "since": text.local_time(alert.starts_s, now_s, zone),
        "lasted": text.duration((alert.ends_s or now_s) - alert.starts_s),
        "how_bad": text.how_bad(finding.facts),
        "labels": alert.labels,
        "annotations": finding.annotations,
    }


def _cause_view(cause: RankedCause) -> Mapping[str, object]:
    return {
        "title": cause.title,
        "score": text.percent(cause.score),
        "evidence": list(cause.evidence),
        "against": list(cause.against),
        "unchecked": list(cause.unchecked),
        "remark": cause.remark,
        "link": cause.link,
        "steps": list(cause.next_steps),
    }


def _short(line: str, most: int) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"
