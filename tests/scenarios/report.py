"""From lived stories to numbers: the right cause first, among three, how soon, and false pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from otel_ofu.model import Finding
from tests.scenarios.story import Story
from tests.scenarios.world import Lived

TOGETHER_S = 900.0
NOTHING = "(nothing told)"
NO_CAUSE = "(no known cause)"


@dataclass(frozen=True)
class Judged:
    """One story with a cause. `delay_s`: from the trouble to the first message; None for none."""

    story: Story
    first: str
    among_three: bool
    delay_s: float | None
    pages: int
    firsts: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        return self.first in self.story.right

    @property
    def in_time(self) -> bool:
        limit = self.story.within_s
        return limit is None or (self.delay_s is not None and self.delay_s <= limit)


def judge(lived: Lived) -> Judged:
    """The first message after the trouble began, and those that came with it."""
    story = lived.story
    after = [(at_s, d) for at_s, d in lived.opened() if at_s > story.start_s]
    if not after:
        return Judged(story, NOTHING, not story.causes, None, len(lived.pages()))
    began_s = after[0][0]
    first = _speaker([d for at_s, d in after if at_s == began_s])
    together = [d for at_s, d in after if at_s <= began_s + TOGETHER_S]
    named = {c.id for d in together for c in d.causes}
    among = all(cause in named for cause in story.causes) or (
        len(story.causes) == 1 and bool(named & story.right)
    )
    firsts = tuple(_first(d) for _, d in after)
    return Judged(story, _first(first), among, began_s - story.start_s, len(lived.pages()), firsts)


def _speaker(told: Sequence[Finding]) -> Finding:
    """Of several at once: the one with the best cause."""
    return max(told, key=lambda d: d.causes[0].score if d.causes else 0.0)


def _first(finding: Finding) -> str:
    return finding.causes[0].id if finding.causes else NO_CAUSE


def share(judged: Sequence[Judged], *, among_three: bool = False) -> float:
    """The part of the stories with a cause in which it came first, or among three."""
    told = [j for j in judged if j.story.causes]
    right = sum(j.among_three if among_three else j.right for j in told)
    return right / len(told) if told else 1.0


def table(judged: Sequence[Judged]) -> Iterator[str]:
    """One line a story, then the confusions and the sums."""
    yield f"{'story':40} {'told first':24} {'right':6} {'in 3':5} {'delay':>7} {'pages':>5}"
    for j in judged:
        delay = "-" if j.delay_s is None else f"{j.delay_s / 60:.1f}m"
        right = ("yes" if j.right else "NO") if j.story.causes else "-"
        three = ("yes" if j.among_three else "NO") if j.story.causes else "-"
        late = "" if j.in_time else f"  LATE: at most {j.story.within_s} s"
        loud = "  LOUD" if j.story.quiet and j.pages else ""
        row = f"{j.story.name:40} {j.first:24} {right:6} {three:5} {delay:>7} {j.pages:5}"
        yield f"{row}{late}{loud}"
    yield ""
    yield from confusion(judged)
    yield ""
    told = [j for j in judged if j.story.causes]
    delays = sorted(j.delay_s for j in told if j.delay_s is not None)
    yield f"stories with a cause: {len(told)}; in all: {len(judged)}"
    yield f"right cause first: {share(judged):.1%}"
    strict = sum(j.first in j.story.causes for j in told) / max(1, len(told))
    yield f"the same, with what counters cannot tell apart counted as wrong: {strict:.1%}"
    yield f"among the first three: {share(judged, among_three=True):.1%}"
    yield f"median delay: {delays[len(delays) // 2] / 60:.1f} min" if delays else "nothing told"
    yield "indistinguishable by counters:"
    for j in judged:
        if j.story.indistinct:
            names = ", ".join([*j.story.causes, *j.story.accept])
            yield f"  {j.story.name}: {names} - {j.story.indistinct}"


def confusion(judged: Sequence[Judged]) -> Iterator[str]:
    """True cause -> what was told first, with how often."""
    yield f"{'true cause':24} told first"
    rows: dict[str, Counter[str]] = {}
    for j in judged:
        if j.story.causes:
            rows.setdefault(j.story.causes[0], Counter())[j.first] += 1
    for cause, counts in sorted(rows.items()):
        told = ", ".join(f"{name} {n}" for name, n in counts.most_common())
        yield f"{cause:24} {told}"
