"""Routes that no alert can ever take: matchers that contradict, or a sibling that takes all before.

Enters: the matchers on the way to a route. Leaves: why nothing reaches it, or nothing. Only what is
certain is told: regular expressions are asked about known values, never compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from otel_ofu.notify.alert import ENTITIES, SEVERITIES
from otel_ofu.notify.matchers import Matcher
from otel_ofu.notify.tree import Route

# Labels with known values. A summary of findings has no entity.
_CHOICES: Mapping[str, Sequence[str]] = {"severity": SEVERITIES, "ofu_entity": (*ENTITIES, "")}


def unreachable(root: Route) -> Iterator[tuple[Sequence[int], str]]:
    """The place of each such route as indexes from the root, and why; not those below it."""
    yield from _below(root, (), ())


def _below(
    route: Route, steps: Sequence[int], above: Sequence[Matcher]
) -> Iterator[tuple[Sequence[int], str]]:
    for i, child in enumerate(route.routes):
        matchers = (*above, *child.matchers)
        why = contradiction(matchers) or _taken_before(route.routes[:i], matchers)
        if why:
            yield (*steps, i), why
        else:
            yield from _below(child, (*steps, i), matchers)


def contradiction(matchers: Sequence[Matcher]) -> str:
    """Why no labels can match all of these; empty if some may."""
    for name in dict.fromkeys(m.name for m in matchers):
        own = [m for m in matchers if m.name == name]
        possible = _possible(own)
        if possible is not None and not any(all(m.takes(v) for m in own) for v in possible):
            known = ", ".join(v for v in _CHOICES.get(name, ()) if v)
            allowed = f"; {name} is one of {known}" if known else ""
            return f"{' and '.join(str(m) for m in own)} can never match{allowed}"
    return ""


def _possible(matchers: Sequence[Matcher]) -> Sequence[str] | None:
    """The values that the label could have; None if they are not known."""
    name = matchers[0].name
    if name in _CHOICES:
        return _CHOICES[name]
    exact = [m.value for m in matchers if m.operator == "="]
    return exact or None


def _taken_before(siblings: Sequence[Route], matchers: Sequence[Matcher]) -> str:
    for i, sibling in enumerate(siblings):
        if not sibling.goes_on and all(_implied(m, matchers) for m in sibling.matchers):
            what = ", ".join(str(m) for m in sibling.matchers) or "everything"
            return f"can never match: routes[{i}] before it takes {what}, without continue"
    return ""


def _implied(wanted: Matcher, matchers: Sequence[Matcher]) -> bool:
    """Whether labels that match all of `matchers` match `wanted` too, as far as that is certain."""
    own = [m for m in matchers if m.name == wanted.name]
    if wanted in own:
        return True
    possible = _possible(own) if own else _CHOICES.get(wanted.name)
    if possible is None:
        return False
    left = [v for v in possible if all(m.takes(v) for m in own)]
    return all(wanted.takes(v) for v in left)
