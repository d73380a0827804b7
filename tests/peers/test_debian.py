"""How Debian's packages are fetched, with stand-ins for its programs on PATH."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.conftest import fetched
from tests.peers.debian import SLURM, main

APT_GET = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
  *Dir::State::lists=*) ;;
  *) echo 'E: Unable to locate package slurmd' >&2; exit 100;;
esac
for option; do
  case "$option" in --option=Dir::Cache::archives=*) archives=${{option#*archives=}};; esac
done
case "$*" in *--download-only*) echo > "$archives/slurmd_1_all.deb";; esac
"""
DPKG_DEB = """#!/bin/sh
mkdir -p "$3/usr/sbin" "$3/usr/bin"
for name in sbin/munged sbin/slurmctld-wlm sbin/slurmd-wlm sbin/slurmstepd-wlm bin/sbatch; do
  echo fetched > "$3/usr/$name"
done
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and a PATH with little on it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    return tmp_path / "cache" / "otel-ofu" / "peers"


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_without_lists_of_the_system_it_gets_its_own(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    program(tmp_path / "bin" / "apt-get", APT_GET.format(log=tmp_path / "log"))
    program(tmp_path / "bin" / "dpkg-deb", DPKG_DEB)
    assert main() == 0
    assert (SLURM.folder / "usr" / "sbin" / "slurmd").read_text() == "fetched\n"
    calls = (tmp_path / "log").read_text().splitlines()
    assert ["update" in call for call in calls] == [False, True, False]
    assert main() == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("(was there)")
    assert list(cache.iterdir()) == [SLURM.folder]


def test_on_another_system_it_says_what_it_needs_and_leaves_nothing(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main() == 1
    words = "slurm: not fetched: needs `apt-get`, which Debian and Ubuntu have\n"
    assert capsys.readouterr().err == words
    assert list(cache.iterdir()) == []


def test_a_test_without_it_skips_and_fails_where_peers_are_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OTEL_OFU_PEERS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="slurm is not there: run `make peers`"):
        fetched()
    monkeypatch.setenv("OTEL_OFU_PEERS", "required")
    with pytest.raises(pytest.fail.Exception, match="slurm is not there"):
        fetched()
