"""Numbers, times and names as messages show them.

Enters: values with their unit in the name. Leaves: short English text.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo

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
