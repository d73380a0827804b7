"""The message for people: which job, since when and how bad; the likely cause; what to do next.

Enters: a notification. Leaves: a title (the first line) and a body, as text, Markdown or HTML;
numbers, times and names as messages show them, in short English text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

from otel_ofu.model import Finding, RankedCause
from otel_ofu.notify.alert import Alert, Notification
from otel_ofu.notify.template import MessageFormat, Part, names_of, parse_template, written

_SHOWN_ELSEWHERE = ("ofu", "ofu_before", "gpu_hours_lost", "began_s", "lasted_s", "gpus")
_RATIOS = {
    "gpu_util": "GPU busy",
    "tensor_active": "tensor cores active",
    "clock_factor": "clock factor",
    "mfu": "MFU",
    "ofu_baseline": "usual OFU",
}
_UNITS = {"s": "s", "w": "W", "hz": "Hz", "c": "°C", "bytes": "B"}


def duration(seconds: float) -> str:
    """`45 s`, `19 min`, `1 h 12 min`, `3 d 4 h`; never negative."""
    whole = max(0, int(seconds))
    if whole < 60:  # noqa: PLR2004 - a minute
        return f"{whole} s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if not hours:
        return f"{minutes} min"
    if not days:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"


def local_time(time_s: float, now_s: float, zone: tzinfo) -> str:
    """`03:02 UTC`, with the date when it is not that of `now_s`."""
    then, now = datetime.fromtimestamp(time_s, zone), datetime.fromtimestamp(now_s, zone)
    return then.strftime("%H:%M %Z" if then.date() == now.date() else "%Y-%m-%d %H:%M %Z")


def percent(ratio: float) -> str:
    """`11 %`; below 10 % with one digit more."""
    points = ratio * 100
    return f"{points:.1f} %" if 0 < abs(points) < 9.95 else f"{points:.0f} %"  # noqa: PLR2004 - where rounding gives 10


def number(value: float) -> str:
    """At most four significant digits."""
    return f"{value:.4g}"


def how_bad(facts: Mapping[str, float]) -> str:
    """`OFU 11 % now, 43 % before, 3.4 GPU-hours lost`, of these what is known."""
    parts = []
    if "ofu" in facts:
        parts.append(f"OFU {percent(facts['ofu'])} now")
    if "ofu_before" in facts:
        parts.append(f"{'' if parts else 'OFU '}{percent(facts['ofu_before'])} before")
    if "gpu_hours_lost" in facts:
        parts.append(f"{number(facts['gpu_hours_lost'])} GPU-hours lost")
    return ", ".join(parts)


def other_facts(facts: Mapping[str, float], now_s: float, zone: tzinfo) -> list[str]:
    """The facts that `how_bad` leaves out: `began 06:31 UTC`, `64 GPUs`, `MFU 21 %`."""
    parts = [f"began {local_time(facts['began_s'], now_s, zone)}"] if "began_s" in facts else []
    if "gpus" in facts:
        parts.append(f"{number(facts['gpus'])} GPUs")
    rest = {name: value for name, value in facts.items() if name not in _SHOWN_ELSEWHERE}
    return parts + [_fact(name, value) for name, value in rest.items()]


def _fact(name: str, value: float) -> str:
    """Ratios by their names here; other names carry their unit."""
    if name in _RATIOS:
        return f"{_RATIOS[name]} {percent(value)}"
    stem, _, unit = name.rpartition("_")
    if stem and unit in _UNITS:
        return f"{stem.replace('_', ' ')} {number(value)} {_UNITS[unit]}"
    return f"{name.replace('_', ' ')} {number(value)}"


def subject(labels: Mapping[str, str]) -> str:
    """`job 4242 (llama), GPU-1 on node7`: the job first, whose people are called."""
    job, name = labels.get("ofu_job_id", ""), labels.get("slurm_job_name", "")
    parts = [f"job {job} ({name})" if name and name != job else f"job {job}"] if job else []
    kind, host = labels.get("ofu_entity", ""), labels.get("host_name", "")
    if kind == "gpu" and labels.get("hw_id"):
        parts.append(f"{labels['hw_id']} on {host}" if host else labels["hw_id"])
    elif kind == "node" and host:
        parts.insert(0, f"node {host}")
    return ", ".join(parts)


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
    who = subject(alert.labels) or (f"{finding.count} findings" if finding.count > 1 else "")
    bad = how_bad(finding.facts) or _compared(finding)
    tail = f": {bad}. {finding.rule}" if bad else f": {finding.rule}"
    return " ".join(part for part in (_head(alert), who, _when(alert, now_s, zone)) if part) + tail


def _head(alert: Alert) -> str:
    return alert.labels.get("severity", "").upper() if alert.firing else "RESOLVED"


def _when(alert: Alert, now_s: float, zone: tzinfo) -> str:
    since = local_time(alert.starts_s, now_s, zone)
    if alert.ends_s is None:
        return f"since {since} ({duration(now_s - alert.starts_s)})"
    return f"after {duration(alert.ends_s - alert.starts_s)}, since {since}"


def _compared(finding: Finding) -> str:
    if finding.value is None:
        return ""
    limit = f", threshold {number(finding.threshold)}" if finding.threshold is not None else ""
    return f"value {number(finding.value)}{limit}"


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
        "possible": ", ".join(f"{c.title} ({percent(c.score)})" for c in rest),
        "facts": ", ".join(other_facts(finding.facts, now_s, zone)),
        "link": finding.link or (first.link if first else ""),
        "severity": alert.labels.get("severity", ""),
        "rule": finding.rule,
        "whom": subject(alert.labels),
        "since": local_time(alert.starts_s, now_s, zone),
        "lasted": duration((alert.ends_s or now_s) - alert.starts_s),
        "how_bad": how_bad(finding.facts),
        "labels": alert.labels,
        "annotations": finding.annotations,
    }


def _cause_view(cause: RankedCause) -> Mapping[str, object]:
    return {
        "title": cause.title,
        "score": percent(cause.score),
        "evidence": list(cause.evidence),
        "against": list(cause.against),
        "unchecked": list(cause.unchecked),
        "remark": cause.remark,
        "link": cause.link,
        "steps": list(cause.next_steps),
    }


def _short(line: str, most: int) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"
