"""`python -m tests.scenarios [NAME...] [--fleet GPU_DAYS]`: the table of the scenario suite."""

from __future__ import annotations

import argparse
import time

from otel_ofu.diagnose import card
from tests.scenarios.healthy import false_pages
from tests.scenarios.report import judge, table
from tests.scenarios.story import stories
from tests.scenarios.world import live


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="stories; all without a name")
    parser.add_argument("--cards", action="store_true", help="print what was told")
    parser.add_argument("--fleet", type=float, default=0.0, help="healthy GPU-days to live through")
    options = parser.parse_args()
    begun_s = time.perf_counter()
    judged = []
    for story in stories():
        if options.names and story.name not in options.names:
            continue
        lived = live(story)
        judged.append(judge(lived))
        if options.cards:
            for one in lived.told:
                print(card(one), end="\n\n")
    print("\n".join(table(judged)))
    print(f"{time.perf_counter() - begun_s:.0f} s")
    if options.fleet:
        _fleet(options.fleet)
    return 0


def _fleet(gpu_days: float) -> None:
    days = pages = 0.0
    for lived in false_pages(gpu_days):
        days += lived.gpu_days
        pages += len(lived.pages())
        for _, page in lived.pages():
            print(f"{lived.story.name}: {card(page)}")
    print(f"healthy fleet: {pages:.0f} false pages in {days:.0f} GPU-days", end=": ")
    print(f"{1_000 * pages / days:.2f} per 1,000 GPU-days")


if __name__ == "__main__":
    raise SystemExit(main())
