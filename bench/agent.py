"""What the agent costs on a node of 8 GPUs: a round, a day, memory, and how soon it speaks.

The driver is the C stub of the tests: driver time is that of a stub, all above it is real.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from otel_ofu.app.prepare import deriver  # noqa: E402 - the checkout first
from otel_ofu.catalog.registry import load_registry  # noqa: E402
from otel_ofu.config import Gpu  # noqa: E402
from otel_ofu.derive import Deriver  # noqa: E402
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder  # noqa: E402
from otel_ofu.model import Observation, Reading  # noqa: E402
from otel_ofu.model.clock import SystemClock  # noqa: E402
from otel_ofu.sources.nvml import NvmlSource  # noqa: E402
from tests.sources.nvml.rig import build_stub  # noqa: E402

T = TypeVar("T")

ROUNDS = 50
LIVE_S = 70.0
STARTED_S = 10.0


def run() -> dict[str, float | str]:
    compiler = shutil.which("cc")
    if compiler is None:
        return {"skipped": "no C compiler"}
    with tempfile.TemporaryDirectory() as folder:
        library = build_stub(compiler, Path(folder))
        os.environ["NVML_STUB"] = "gpus=8 gpm.5=43.75 sm_clock=1410"
        return {**_round(library), **_process(library, Path(folder)), **_imports()}


def _round(library: Path) -> dict[str, float | str]:
    """CPU of one round in this process: read, derive, encode."""
    source = NvmlSource(str(library), clock=SystemClock())
    derived, encoder = deriver(Gpu(), "n"), MetricEncoder(load_registry(), {}, EncoderOptions(0.0))
    source.read(0.0)
    costs: dict[str, list[float]] = {"read (stub)": [], "derive": [], "encode, gzip": []}
    points = 0
    for _ in range(ROUNDS):
        time.sleep(0.11)  # GPM needs 100 ms between two samples
        readings = _timed(costs["read (stub)"], partial(source.read, 0.0))
        observations = _timed(costs["derive"], partial(_derived, derived, readings))
        bodies = _timed(costs["encode, gzip"], partial(encoder.encode, observations))
        points = sum(body.points for body in bodies)
    source.close()
    medians = {what: sorted(spent)[len(spent) // 2] for what, spent in costs.items()}
    rows: dict[str, float | str] = {f"8 GPUs: {w}, ms CPU": 1000 * s for w, s in medians.items()}
    rows["8 GPUs: points per round"] = float(points)
    return rows


def _derived(derived: Deriver, readings: Sequence[Reading]) -> list[Observation]:
    return [derived.derive(reading) for reading in readings]


def _timed(spent: list[float], call: Callable[[], T]) -> T:
    began = time.process_time()
    result = call()
    spent.append(time.process_time() - began)
    return result


class _Backend(BaseHTTPRequestHandler):
    """Takes everything; remembers when the first metrics came."""

    first_s: float | None = None

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if _Backend.first_s is None:
            _Backend.first_s = time.monotonic()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Silence."""


def _process(library: Path, folder: Path) -> dict[str, float | str]:
    """A real process at a 10 s interval with the shipped rules, sending to loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Backend)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = folder / "c.yaml"
    config.write_text(
        f"state_dir: {folder}/state\n"
        f"receivers: {{gpu: {{source: nvml, interval: 10s, nvml: {{library: {library}}}}}}}\n"
        f"exporters: {{otlp_http: {{endpoint: http://127.0.0.1:{server.server_port}}}}}\n"
    )
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "otel_ofu", "run", "-c", str(config), "--for", f"{LIVE_S:.0f}s"],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )
    start_cpu_s = _cpu_after(process.pid, STARTED_S)
    started = time.monotonic()
    rss_kb = _rss_kb(process.pid, began + LIVE_S - 1)
    share = (_cpu_after(process.pid, 0) - start_cpu_s) / (time.monotonic() - started)
    process.wait()
    server.shutdown()
    return {
        "8-GPU agent: first metric out, s after start": (_Backend.first_s or 0.0) - began,
        "8-GPU agent: RSS, MB": rss_kb / 1024,
        "8-GPU agent: CPU to start, s": start_cpu_s,
        "8-GPU agent at 10 s: CPU, % of one core": 100 * share,
        "8-GPU agent at 10 s: CPU per day, s": share * 86400,
    }


def _cpu_after(pid: int, seconds: float) -> float:
    time.sleep(seconds)
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_kb(pid: int, until: float) -> float:
    time.sleep(max(0.0, until - time.monotonic()))
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmRSS:")))


def _imports() -> dict[str, float | str]:
    """Time of `import otel_ofu` beside an interpreter that imports nothing."""

    def spent(code: str) -> float:
        times = []
        for _ in range(7):
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
            )
            times.append(time.perf_counter() - began)
        return sorted(times)[len(times) // 2]

    bare = spent("pass")
    return {
        "import otel_ofu, ms beyond a bare interpreter": 1000 * (spent("import otel_ofu") - bare),
        "otel-ofu --version, ms": 1000
        * spent(
            "import sys; sys.argv[1:]=['--version']\nimport runpy\n"
            "try: runpy.run_module('otel_ofu', run_name='__main__')\nexcept SystemExit: pass"
        ),
    }


if __name__ == "__main__":
    for what, value in run().items():
        print(what, value)
