"""Which source reads, and what is said about the others."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from otel_ofu.app.sources import (
    SOURCES,
    SourceCandidate,
    SourceProbe,
    best,
    choose,
    dcgm_probe,
    factory,
    probe_source,
)
from otel_ofu.config import Gpu, config_from_text
from otel_ofu.model.clock import SystemClock
from otel_ofu.model.errors import SourceUnavailable
from otel_ofu.sources import BUILT_IN
from otel_ofu.sources.dcgm.wire import DcgmProbe, GpuProfiling, ProbeProblem
from tests.sources.dcgm.rig import FAKE

NOWHERE = "nvml: {library: /nonexistent/libnvidia-ml.so.1}, dcgm: {bindings_path: /nonexistent}"
PAGE = (
    'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3"} 0.4\n'
    'DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3"} 1410\n'
)


@pytest.fixture
def exporter() -> Iterator[str]:
    """The address of a metrics page with one GPU."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    thread.join()
    server.server_close()


def gpu(text: str) -> Gpu:
    return config_from_text(f"receivers: {{gpu: {{{text}}}}}").receivers.gpu


def test_auto_takes_the_first_that_works_and_remembers_why_not_the_others(exporter: str) -> None:
    settings = gpu(f"{NOWHERE}, scrape: {{endpoints: [{{url: '{exporter}'}}]}}")
    chosen = choose(settings, SystemClock())
    assert chosen.name == "scrape"
    assert chosen.message == f"1 GPU at {exporter}"
    assert [(c.name, c.usable) for c in chosen.candidates] == [
        ("dcgm", False),
        ("nvml", False),
        ("scrape", True),
    ]


def test_endpoints_that_gave_nothing_are_not_listed_as_read(exporter: str) -> None:
    closed, missing = "http://127.0.0.1:9/metrics", exporter.replace("/metrics", "/other")
    pages = ", ".join(f"{{url: '{url}'}}" for url in (closed, exporter, missing))
    found = probe_source("scrape", gpu(f"scrape: {{endpoints: [{pages}]}}"), SystemClock())
    assert found.candidate.usable
    assert found.candidate.message == f"1 GPU at {exporter} (2 of 3 endpoints give nothing)"
    assert list(found.candidate.silent) == [closed, missing]
    told = [problem.message for problem in found.candidate.problems]
    assert told[0] == f"{closed}: connection refused; check that the exporter runs"
    assert told[1].startswith(f"{missing}: answered 404")


def test_a_gpu_on_two_pages_is_one_gpu(exporter: str) -> None:
    again = exporter.replace("127.0.0.1", "localhost")
    pages = f"{{url: '{exporter}'}}, {{url: '{again}'}}"
    found = probe_source("scrape", gpu(f"scrape: {{endpoints: [{pages}]}}"), SystemClock())
    assert found.candidate.message == f"1 GPU at {exporter}, {again}"
    assert found.candidate.devices == 1


def test_every_problem_of_a_probe_of_dcgm_is_kept_with_its_remedy() -> None:
    problems = (ProbeProblem("no GPU", "load it"), ProbeProblem("too new", "match them"))
    found = dcgm_probe(DcgmProbe(address="x:1", reachable=True, problems=problems, complete=True))
    assert [(each.message, each.remedy) for each in found.candidate.problems] == [
        ("no GPU", "load it"),
        ("too new", "match them"),
    ]


def test_when_none_works_the_error_tells_about_each() -> None:
    settings = gpu(f"{NOWHERE}, scrape: {{endpoints: [{{url: 'http://127.0.0.1:9/'}}]}}")
    with pytest.raises(SourceUnavailable) as caught:
        choose(settings, SystemClock()).require()
    told = str(caught.value).splitlines()
    assert told[0] == "no source of GPU counters works here:"
    assert [line.split()[0] for line in told[1:]] == ["dcgm", "nvml", "scrape"]
    assert "otel-ofu doctor" in caught.value.remedy


def test_every_built_in_source_has_its_row() -> None:
    assert tuple(SOURCES) == BUILT_IN


def test_a_source_asked_for_by_name_is_the_only_one_tried() -> None:
    with pytest.raises(SourceUnavailable, match=r"^nvml: cannot load .*/nonexistent"):
        choose(gpu(f"source: nvml, {NOWHERE}"), SystemClock()).require()


def probe_of(
    name: str, *gpus: tuple[str, bool], usable: bool = True, late: str = ""
) -> SourceProbe:
    candidate = SourceCandidate(name, usable=usable, message=name, devices=len(gpus))
    return SourceProbe(candidate, {uuid: (ok, "") for uuid, ok in gpus}, late)


@pytest.mark.parametrize(
    ("probes", "name"),
    [
        ([probe_of("dcgm", ("G", True)), probe_of("nvml", ("G", True))], "dcgm"),
        ([probe_of("dcgm", ("G", False)), probe_of("nvml", ("G", True))], "nvml"),
        ([probe_of("dcgm", ("G", True), ("H", False)), probe_of("nvml", ("G", False))], "dcgm"),
        ([probe_of("dcgm", late="slow"), probe_of("nvml", ("G", True))], "nvml"),
        ([probe_of("dcgm", late="slow"), probe_of("nvml", usable=False)], "dcgm"),
        ([probe_of("dcgm", ("G", False)), probe_of("nvml", ("G", False))], "dcgm"),
        (
            [
                probe_of("nvml", ("G", True), ("H", True), ("I", False)),
                probe_of("scrape", ("G", True)),
            ],
            "nvml",
        ),
        ([probe_of("json_file")], "json_file"),
    ],
)
def test_the_source_that_gives_most_ofu_is_expected_to_read(
    probes: list[SourceProbe], name: str
) -> None:
    found = best(probes)
    assert found is not None
    assert found.name == name


def test_an_engine_that_sees_no_gpu_is_not_usable() -> None:
    found = dcgm_probe(
        DcgmProbe(address="x:1", engine_version="4.5", reachable=True, complete=True)
    )
    assert not found.candidate.usable
    assert found.candidate.message == "host engine 4.5 at x:1 sees no GPU"


def test_an_engine_without_profiling_is_usable_for_the_rest() -> None:
    found = dcgm_probe(
        DcgmProbe(address="x:1", engine_version="4.5", reachable=True, gpus=2, complete=True)
    )
    assert (found.candidate.usable, found.candidate.devices) == (True, 2)
    assert not found.gives_all()
    assert found.of("GPU-0") == (False, "no profiling counters are asked for")


def test_a_look_says_for_each_gpu_whether_ofu_can_be_had(exporter: str) -> None:
    found = probe_source(
        "scrape", gpu(f"scrape: {{endpoints: [{{url: '{exporter}'}}]}}"), SystemClock()
    )
    assert found.gpus == {"GPU-1": (True, "has OFU")}
    assert found.of("GPU-2") == (False, "does not see this GPU")


@pytest.mark.parametrize("bindings", ["/nonexistent", str(FAKE)])
def test_no_client_process_is_started_where_no_engine_can_answer(bindings: str) -> None:
    settings = gpu(f"dcgm: {{bindings_path: {bindings}, address: '127.0.0.1:9'}}")
    with pytest.raises(SourceUnavailable) as caught:
        factory("dcgm", settings, SystemClock())()
    assert caught.value.remedy


LATE = "no answer about its GPUs within 15 s"


def late_dcgm(*profiling: GpuProfiling) -> DcgmProbe:
    """An engine that told its version and was then late."""
    return DcgmProbe(
        address="127.0.0.1:5555",
        bindings_path="/opt/dcgm",
        bindings_major=4,
        library_version="4.6.0",
        engine_version="4.6.0",
        reachable=True,
        profiling=profiling,
        problems=(ProbeProblem(LATE),),
        complete=False,
    )


def test_an_engine_that_is_late_is_used_and_the_lateness_is_told_of_it_and_of_each_gpu() -> None:
    found = dcgm_probe(late_dcgm())
    assert found.candidate.usable
    assert found.candidate.message == f"host engine 4.6.0 at 127.0.0.1:5555: {LATE}"
    assert found.of("GPU-0") == (False, LATE)


def test_what_a_late_engine_told_before_is_kept() -> None:
    known = GpuProfiling(uuid="GPU-0", model="NVIDIA H100 80GB HBM3", backend="gpm", ok=True)
    found = dcgm_probe(late_dcgm(known))
    assert found.of("GPU-0") == (True, "profiling through gpm")
    assert found.of("GPU-1") == (False, LATE)
