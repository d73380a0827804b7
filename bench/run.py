"""Runs every benchmark and writes the table of docs/performance.md.

Each module of this folder with a `run() -> dict[str, float | str]` measures one claim; a row of the
table is one entry of that dict. `python bench/run.py [NAME…]` runs some of them and only prints.
"""

from __future__ import annotations

import importlib
import platform
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER.parent / "docs" / "performance.md"
BEGIN = "<!-- measured: begin -->"
END = "<!-- measured: end -->"

Rows = Mapping[str, float | str]


def names() -> list[str]:
    """The benchmarks, in the order of their names."""
    return sorted(p.stem for p in FOLDER.glob("*.py") if p.stem not in ("run", "__init__"))


def measure(name: str) -> Rows:
    module = importlib.import_module(name)
    rows: Rows = module.run()
    return rows


def table(measured: Mapping[str, Rows]) -> Iterator[str]:
    yield f"Measured on {_machine()}."
    yield ""
    yield "| benchmark | what | value |"
    yield "|---|---|---|"
    for name, rows in measured.items():
        for what, value in rows.items():
            yield f"| {name} | {what} | {_written(value)} |"


def _written(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _machine() -> str:
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    parts = ", ".join(f"{name} {version(name)}" for name in ("numpy", "protobuf", "msgspec"))
    return f"{cpu}, Python {platform.python_version()}, {parts}"


def main(wanted: list[str]) -> int:
    sys.path.insert(0, str(FOLDER))
    unknown = [name for name in wanted if name not in names()]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(names())}")
        return 2
    measured: dict[str, Rows] = {}
    for name in wanted or names():
        print(f"== {name}", flush=True)
        measured[name] = measure(name)
        for what, value in measured[name].items():
            print(f"{what:60} {_written(value)}", flush=True)
    if not wanted:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        text = "\n".join(table(measured))
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
