"""A finding over one round, as a pure function: finding, verdicts -> finding, move.

inactive (no finding) -> pending -> firing -> recovering -> resolved (no finding again). Unknown
moves nothing; when it lasts `missing_timeout_s`, a firing finding ends as no_data and a pending one
is forgotten.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec.structs import replace

from otel_ofu.model import Finding
from otel_ofu.rules.files.rule import RuleTiming
from otel_ofu.rules.verdicts import CLEAR, HOLDS, UNKNOWN


class Move(StrEnum):
    """What people are notified of."""

    OPENED = "opened"
    RECOVERED = "recovered"
    NO_DATA = "no_data"


Step = tuple[Finding | None, Move | None]


def step(finding: Finding, verdict: int, clears: int, now_s: float, timing: RuleTiming) -> Step:
    """The finding after a round, None for inactive, and what happened.

    A finding begins as pending since `now_s`. `clears`: the verdict of the rule's second condition,
    HOLDS where it has none. The finding itself comes back when nothing changed.
    """
    finding = _not_after(finding, now_s)
    if finding.state == "pending":
        return _pending(finding, verdict, now_s, timing)
    return _firing(finding, (verdict, clears), now_s, timing)


def is_settled(finding: Finding) -> bool:
    """Firing, and known to be: when the condition holds again nothing changes."""
    return finding.state == "firing" and finding.unknown_s is None


def _pending(finding: Finding, verdict: int, now_s: float, timing: RuleTiming) -> Step:
    if verdict == UNKNOWN:
        return _unknown(finding, now_s, timing)
    if verdict == CLEAR:
        return None, None
    finding = _known(finding)
    if now_s - finding.since_s < timing.for_s:
        return finding, None
    return replace(finding, state="firing", fired_s=now_s), Move.OPENED


def _firing(finding: Finding, verdicts: tuple[int, int], now_s: float, timing: RuleTiming) -> Step:
    verdict, clears = verdicts
    if verdict == HOLDS:
        return _again(finding), None
    if UNKNOWN in verdicts:
        return _unknown(finding, now_s, timing)
    if clears == CLEAR:  # between the two conditions
        return _again(finding), None
    return _calm(_known(finding), now_s, timing)


def _again(finding: Finding) -> Finding:
    if is_settled(finding):
        return finding
    return replace(finding, state="firing", calm_s=None, unknown_s=None)


def _calm(finding: Finding, now_s: float, timing: RuleTiming) -> Step:
    calm_s = now_s if finding.calm_s is None else finding.calm_s
    if now_s - calm_s >= timing.keep_firing_for_s:
        return None, Move.RECOVERED
    if finding.state == "recovering":
        return finding, None
    return replace(finding, state="recovering", calm_s=calm_s), None


def _unknown(finding: Finding, now_s: float, timing: RuleTiming) -> Step:
    unknown_s = now_s if finding.unknown_s is None else finding.unknown_s
    if now_s - unknown_s >= timing.missing_timeout_s:
        return None, None if finding.state == "pending" else Move.NO_DATA
    return (finding if finding.unknown_s is not None else replace(finding, unknown_s=now_s)), None


def _known(finding: Finding) -> Finding:
    return finding if finding.unknown_s is None else replace(finding, unknown_s=None)


def _not_after(finding: Finding, now_s: float) -> Finding:
    """After the clock was set back nothing began in the future: it waits anew, never less."""
    since_s = min(finding.since_s, now_s)
    calm_s, unknown_s = _until(finding.calm_s, now_s), _until(finding.unknown_s, now_s)
    if (since_s, calm_s, unknown_s) == (finding.since_s, finding.calm_s, finding.unknown_s):
        return finding
    return replace(finding, since_s=since_s, calm_s=calm_s, unknown_s=unknown_s)


def _until(time_s: float | None, now_s: float) -> float | None:
    return None if time_s is None else min(time_s, now_s)
