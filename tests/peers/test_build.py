"""What `make peers` says and leaves, without a Go toolchain: a stand-in for `go` is on PATH."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.peers.build import PEERS, main, where
from tests.peers.conftest import built

GO = """#!/bin/sh
[ "$1" = mod ] && { echo '{"Dir": "'"$PWD"'"}'; exit 0; }
case "$PWD" in */prometheus) echo "dial: no route" >&2; exit 1;; esac
while [ "$1" != -o ]; do shift; done
for name in otelcol alertmanager amtool; do
  case "$2" in */) echo built > "$2$name";; *) echo built > "$2";; esac
done
"""

ABSENT = re.escape("peer promtool is not built: run `make peers`")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "otel-ofu" / "peers"


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `go` that builds all but Prometheus."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "go"
    program.write_text(GO)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_one_failure_stops_no_other_build(
    go: None, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 1
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["collector", "alertmanager"]
    assert "prometheus" in said.err
    assert "dial: no route" in said.err
    assert where("amtool") is not None
    assert where("prometheus") is None


def test_a_failed_build_leaves_nothing(go: None, cache: Path) -> None:
    main(["prometheus"])
    assert list(cache.iterdir()) == []


def test_what_is_built_is_not_built_again(go: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collector"]) == 0
    assert main(["collector"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("(was there)")


def test_without_go_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([]) == 1
    assert capsys.readouterr().err == "peers need Go: no `go` on PATH\n"


def test_where_names_what_is_not_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--where", "promtool"]) == 1
    assert capsys.readouterr().err == "promtool is not built\n"


def test_where_prints_the_path(go: None, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["collector"])
    capsys.readouterr()
    assert main(["--where", "collector"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.read_text() == "built\n"
    assert path.is_relative_to(cache)


def test_versions_are_those_of_the_programs() -> None:
    prometheus = next(peer for peer in PEERS if peer.name == "prometheus")
    assert prometheus.module_version.startswith("v0.3")
    assert prometheus.version.startswith("3.")


def test_a_test_without_its_peer_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_OFU_PEERS", raising=False)
    with pytest.raises(pytest.skip.Exception, match=ABSENT):
        built("promtool")


def test_a_test_without_its_peer_fails_where_peers_are_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_OFU_PEERS", "required")
    with pytest.raises(pytest.fail.Exception, match=ABSENT):
        built("promtool")
