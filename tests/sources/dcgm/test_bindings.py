"""Finding and importing the vendor's client."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_ofu.model.errors import SourceUnavailable
from otel_ofu.sources.dcgm.bindings import SearchPaths, library_major, load, locate
from tests.sources.dcgm.rig import FAKE, forget_modules


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    state = tmp_path / "state.json"
    state.write_text("{}", "utf-8")
    monkeypatch.setenv("FAKE_DCGM_STATE", str(state))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    forget_modules()
    yield
    forget_modules()


def put(folder: Path, major: int = 4) -> Path:
    shutil.copytree(FAKE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    structs = folder / "dcgm_structs.py"
    structs.write_text(structs.read_text("utf-8").replace("libdcgm.so.4", f"libdcgm.so.{major}"))
    return folder


def put_library(root: Path, name: str) -> None:
    folder = root / "usr/lib64"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).touch()


@pytest.mark.parametrize(
    "where",
    [
        "usr/share/datacenter-gpu-manager-4/bindings/python3",
        "usr/share/datacenter-gpu-manager-5/bindings/python3",
        "usr/local/dcgm/bindings/python3",
        "usr/local/dcgm/bindings",
    ],
)
def test_bindings_are_found_where_packages_put_them(tmp_path: Path, where: str) -> None:
    folder = put(tmp_path / where)
    assert locate("", "", SearchPaths(tmp_path)) == folder


def test_the_newest_major_is_taken(tmp_path: Path) -> None:
    for major in (4, 10, 9):
        put(tmp_path / f"usr/share/datacenter-gpu-manager-{major}/bindings/python3", major)
    put(tmp_path / "usr/local/dcgm/bindings/python3", 3)
    folder = locate("", "", SearchPaths(tmp_path))
    assert "datacenter-gpu-manager-10" in str(folder)
    assert library_major(folder) == 10


@pytest.mark.parametrize("below", ["", "python3", "bindings/python3"])
def test_a_named_folder_may_be_the_installation_or_the_bindings(tmp_path: Path, below: str) -> None:
    folder = put(tmp_path / "opt" / below)
    assert locate(str(tmp_path / "opt"), "", SearchPaths(tmp_path)) == folder


def test_no_bindings_name_every_place_and_both_commands(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable) as caught:
        load("", "", SearchPaths(tmp_path))
    for place in ("datacenter-gpu-manager-4/bindings/python3", "local/dcgm/bindings/python3"):
        assert place in str(caught.value)
    assert "sudo apt-get install datacenter-gpu-manager-4-core" in caught.value.remedy
    assert "sudo dnf install datacenter-gpu-manager-4-core" in caught.value.remedy


def test_a_named_folder_without_bindings_does_not_fall_back(tmp_path: Path) -> None:
    put(tmp_path / "usr/local/dcgm/bindings/python3")
    with pytest.raises(SourceUnavailable, match=r"pydcgm\.py.* in .*/empty"):
        load(str(tmp_path / "empty"), "", SearchPaths(tmp_path))


def test_half_of_the_bindings_is_not_enough(tmp_path: Path) -> None:
    (tmp_path / "pydcgm.py").touch()
    with pytest.raises(SourceUnavailable, match="not complete"):
        load(str(tmp_path), "", SearchPaths(tmp_path))


def test_without_bindings_the_newest_library_is_the_client(tmp_path: Path) -> None:
    for name in ("libdcgm.so.3", "libdcgm.so.4", "libdcgm.so", "libdcgm.so.4.6.0"):
        put_library(tmp_path, name)
    assert locate("", "", SearchPaths(tmp_path)).name == "libdcgm.so.4"
    with pytest.raises(SourceUnavailable, match=r"cannot load .*libdcgm\.so\.4: .*file too short"):
        load("", "", SearchPaths(tmp_path))


def test_a_library_does_not_stand_in_for_bindings_that_were_named(tmp_path: Path) -> None:
    put_library(tmp_path, "libdcgm.so.4")
    with pytest.raises(SourceUnavailable, match="no Python bindings of DCGM"):
        load(str(tmp_path / "empty"), "", SearchPaths(tmp_path))


def test_a_library_of_another_major_is_refused_with_both_named(tmp_path: Path) -> None:
    folder = put(tmp_path / "b", 4)
    put_library(tmp_path, "libdcgm.so.3")
    with pytest.raises(SourceUnavailable, match=r"for libdcgm\.so\.4, found only .*libdcgm\.so\.3"):
        load(str(folder), "", SearchPaths(tmp_path))


def test_a_library_of_the_right_major_beside_another_is_taken(tmp_path: Path) -> None:
    folder = put(tmp_path / "b", 4)
    for name in ("libdcgm.so.3", "libdcgm.so.4", "libdcgm.so.4.6.0"):
        put_library(tmp_path, name)
    assert load(str(folder), "", SearchPaths(tmp_path)).major == 4


def test_a_library_that_does_not_load_names_what_was_searched(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"library_missing": True}))
    with pytest.raises(
        SourceUnavailable, match=r"could not load libdcgm\.so\.4 .* searched .*usr/lib64"
    ):
        load(str(FAKE), "", SearchPaths(tmp_path))


def test_a_library_that_the_system_refuses_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"library_missing": True}))
    put_library(tmp_path, "libdcgm.so.4")
    with pytest.raises(SourceUnavailable) as caught:
        load(str(FAKE), "", SearchPaths(tmp_path))
    assert f"could not load libdcgm.so.4: {tmp_path}/usr/lib64/libdcgm.so.4: " in str(caught.value)
    assert "file too short" in str(caught.value)
    assert "searched" not in str(caught.value)


def test_a_named_library_folder_must_have_the_library(tmp_path: Path) -> None:
    put_library(tmp_path, "libdcgm.so.4")
    with pytest.raises(SourceUnavailable, match=r"for libdcgm\.so\.4, found none in .*/empty"):
        load(str(FAKE), str(tmp_path / "empty"), SearchPaths(tmp_path))


def test_a_library_may_be_named_as_a_file(tmp_path: Path) -> None:
    put_library(tmp_path, "libdcgm.so.4")
    named = tmp_path / "usr/lib64/libdcgm.so.4"
    assert SearchPaths(Path("/nowhere")).libraries(str(named))[0] == named.parent


def test_bindings_that_do_not_import_are_named_with_the_python_version(tmp_path: Path) -> None:
    folder = put(tmp_path / "b")
    (folder / "dcgm_agent.py").write_text("import a_module_of_another_decade\n")
    with pytest.raises(SourceUnavailable, match=r"cannot be imported by Python 3\..*decade"):
        load(str(folder), "", SearchPaths(tmp_path))


def test_nothing_is_left_on_the_path_and_no_warning_leaks(tmp_path: Path) -> None:
    before = sys.path[:]
    writes = sys.dont_write_bytecode
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        loaded = load(str(FAKE), "", SearchPaths(tmp_path))
    assert sys.path == before
    assert sys.dont_write_bytecode == writes
    assert seen == []
    assert loaded.path == FAKE


def test_the_path_is_restored_after_a_failure_too(tmp_path: Path) -> None:
    folder = put(tmp_path / "b")
    (folder / "pydcgm.py").write_text("raise RuntimeError('no')\n")
    before = sys.path[:]
    with pytest.raises(SourceUnavailable, match="RuntimeError: no"):
        load(str(folder), "", SearchPaths(tmp_path))
    assert sys.path == before


def test_bindings_loaded_from_elsewhere_are_not_taken_for_the_wanted_ones(tmp_path: Path) -> None:
    load(str(FAKE), "", SearchPaths(tmp_path))
    other = put(tmp_path / "other")
    with pytest.raises(SourceUnavailable, match="is loaded already"):
        load(str(other), "", SearchPaths(tmp_path))
