"""What was reported is kept for `otel-ofu explain`, bounded, and readable after a crash."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from otel_ofu.app import findings
from otel_ofu.app.findings import FindingLog, reported
from otel_ofu.model import Entity, Finding, RankedCause


def finding(number: int) -> Finding:
    entity = Entity("gpu", "GPU-1", {"hw.id": "GPU-1", "ofu.gpu.index": 3, "x": 0.5})
    cause = RankedCause("debug_flag", "A switch", 0.9, ["set"], next_steps=["unset it"])
    return Finding(
        "opened", "Low", entity, f"{number:016x}", "warning", 20.0, 10.0, "low", causes=[cause]
    )


def encoded(findings: Iterable[Finding]) -> list[bytes]:
    """Empty lists and tuples are the same in JSON."""
    return [msgspec.json.encode(finding) for finding in findings]


def test_what_was_reported_is_read_back_as_it_was(tmp_path: Path) -> None:
    log = FindingLog(tmp_path)
    for number in range(3):
        log.add(finding(number))
    assert encoded(reported(tmp_path)) == encoded(finding(number) for number in range(3))


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    FindingLog(tmp_path).add(finding(1))
    with (tmp_path / findings.NAME).open("ab") as stream:
        stream.write(b'{"kind":"ope')
    assert encoded(reported(tmp_path)) == encoded([finding(1)])


def test_the_file_is_bounded(tmp_path: Path) -> None:
    log = FindingLog(tmp_path)
    line = 1 + len(finding(1).summary) + 200
    for number in range(2 * findings.MAX_BYTES // line):
        log.add(finding(number))
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert total < 2 * findings.MAX_BYTES + 10_000


def test_a_disk_that_takes_no_write_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = FindingLog(tmp_path / "gone")
    log.add(finding(1))
    log.add(finding(2))
    assert caplog.text.count("`otel-ofu explain` cannot show this finding") == 1


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    FindingLog(None).add(finding(1))
    assert list(reported(tmp_path)) == []
