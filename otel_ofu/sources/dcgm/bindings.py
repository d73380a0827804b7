"""Finds and imports NVIDIA's Python client of DCGM, in the child process; looks for it in both.

Enters: the folders that a user named, or none. Leaves: `Bindings`, the vendor's modules with the
library loaded (or `native` in their place, where only the library is), or SourceUnavailable that
names every folder that was tried.
Source: the file lists of the packages datacenter-gpu-manager (2.x, 3.x) and
datacenter-gpu-manager-4-core.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otel_ofu.model.errors import SourceUnavailable
from otel_ofu.sources.dcgm import codes

_MODULES = ("pydcgm", "dcgm_agent", "dcgm_structs", "dcgm_fields")


@dataclass(frozen=True, slots=True)
class SearchPaths:
    """Where the packages of DCGM put things, below `root`; later majors are found as well."""

    root: Path = Path("/")

    def bindings(self) -> list[Path]:
        """Folders with bindings that exist or could, newest major first."""
        share = self.root / "usr/share"
        found = sorted(share.glob("datacenter-gpu-manager-*"), key=_major_of_name, reverse=True)
        packages = found or [share / "datacenter-gpu-manager-4"]
        old = self.root / "usr/local/dcgm/bindings"
        return [p / "bindings/python3" for p in packages] + [old / "python3", old]

    def libraries(self, library_path: str) -> list[Path]:
        """Folders that can hold libdcgm.so.N, in the order in which the bindings search."""
        named = [_folder(library_path)] if library_path else []
        environment = os.environ.get("LD_LIBRARY_PATH", "")
        named += [Path(p) for p in environment.split(":") if p]
        return [
            *named,
            self.root / f"usr/lib/{os.uname().machine}-linux-gnu",
            self.root / "usr/lib64",
        ]


@dataclass(frozen=True, slots=True)
class Bindings:
    """The vendor's modules, and where they or the library were found.

    Untyped: they are not on PyPI and publish no types.
    """

    path: Path
    major: int | None
    pydcgm: Any
    dcgm_agent: Any
    dcgm_structs: Any


def load(bindings_path: str, library_path: str, paths: SearchPaths | None = None) -> Bindings:
    """Import the bindings and let them load their library; without any, the library itself."""
    paths = paths or SearchPaths()
    folder = locate(bindings_path, library_path, paths)
    if folder.is_file():
        return _native(folder)
    major = library_major(folder)
    _check_library(folder, major, library_path, paths)
    modules = _import(folder)
    structs = modules["dcgm_structs"]
    try:
        # Before the first handle: DcgmHandle itself knows only the default folders.
        structs._dcgmInit(str(_folder(library_path)) if library_path else None)  # noqa: SLF001 - the documented way to pass a path
    except structs.DCGMError as error:
        searched = paths.libraries(library_path)
        raise _no_library(folder, major, searched, str(error)) from error
    return Bindings(folder, major, modules["pydcgm"], modules["dcgm_agent"], structs)


def locate(bindings_path: str, library_path: str, paths: SearchPaths) -> Path:
    """The folder that holds pydcgm.py; where there is none and none was named, a library file."""
    base = Path(bindings_path)
    tried = (
        [base, base / "python3", base / "bindings/python3"] if bindings_path else paths.bindings()
    )
    for folder in tried:
        if (folder / "pydcgm.py").is_file():
            return folder
    names = ", ".join(map(str, tried))
    message = f"no Python bindings of DCGM (pydcgm.py) in {names}"
    if not bindings_path:
        searched = [_folder(library_path)] if library_path else paths.libraries("")
        if found := _libraries_in(searched):
            return max(found, key=_major_of_library)
        message += f"; no libdcgm.so.N in {', '.join(map(str, searched))}"
    raise SourceUnavailable(message, _client_remedy())


def _native(library: Path) -> Bindings:
    from otel_ofu.sources.dcgm.native import NativeClient  # noqa: PLC0415 - rarely needed

    try:
        client = NativeClient(str(library))
    except (OSError, AttributeError) as error:
        raise SourceUnavailable(f"cannot load {library}: {error}", _client_remedy()) from error
    return Bindings(library, _major_of_library(library), client, client, client)


def _major_of_library(library: Path) -> int:
    return int(library.name.rpartition(".")[2])


def library_major(folder: Path) -> int | None:
    """The N of the libdcgm.so.N that these bindings load; None if they do not name it."""
    try:
        text = (folder / "dcgm_structs.py").read_text("utf-8", errors="replace")
    except OSError as error:
        raise SourceUnavailable(
            f"bindings in {folder} are not complete: {error}", codes.INSTALL_CLIENT
        ) from error
    match = re.search(r"libdcgm\.so\.(\d+)", text)
    return int(match[1]) if match else None


def _check_library(folder: Path, major: int | None, library_path: str, paths: SearchPaths) -> None:
    """Checked beforehand, since the vendor's own error names neither versions nor folders.

    A folder that a user named must have the library: the bindings would look elsewhere silently.
    """
    if major is None:
        return
    searched = [_folder(library_path)] if library_path else paths.libraries("")
    found = _libraries_in(searched)
    name = f"libdcgm.so.{major}"
    if any(p.name == name for p in found) or not (found or library_path):
        return
    names = "only " + ", ".join(map(str, found)) if found else f"none in {searched[0]}"
    raise SourceUnavailable(
        f"bindings in {folder} are for {name}, found {names}",
        f"install bindings and library of one major version. {codes.INSTALL_CLIENT}",
    )


def _libraries_in(folders: Sequence[Path]) -> list[Path]:
    pattern = re.compile(r"libdcgm\.so\.\d+")
    return [
        p
        for folder in folders
        for p in sorted(folder.glob("libdcgm.so.*"))
        if pattern.fullmatch(p.name)
    ]


def _import(folder: Path) -> dict[str, Any]:
    try:
        with _only_from(folder):
            modules = {name: importlib.import_module(name) for name in _MODULES}
    except Exception as error:
        raise SourceUnavailable(
            f"bindings in {folder} cannot be imported by Python {_python_version()}: "
            f"{type(error).__name__}: {error}",
            codes.INSTALL_CLIENT,
        ) from error
    origin = Path(str(modules["pydcgm"].__file__)).parent
    if origin.resolve() != folder.resolve():
        raise SourceUnavailable(
            f"bindings of {folder} were requested but {origin} is loaded already"
        )
    return modules


@contextmanager
def _only_from(folder: Path) -> Iterator[None]:
    """The folder is on sys.path for the imports alone: it holds `common` and other broad names."""
    path, writes = sys.path[:], sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.path[:] = path
        sys.dont_write_bytecode = writes


def _no_library(
    folder: Path, major: int | None, searched: Sequence[Path], detail: str
) -> SourceUnavailable:
    name = f"libdcgm.so.{major if major is not None else 'N'}"
    if refused := [text for p in searched if (text := _refused(p / name))]:
        # The bindings call a library that cannot be loaded not found.
        return SourceUnavailable(
            f"bindings in {folder} could not load {name}: {'; '.join(refused)}",
            "install what the library misses, or a package for this system; " + _client_remedy(),
        )
    folders = ", ".join(map(str, searched))
    return SourceUnavailable(
        f"bindings in {folder} could not load {name} ({detail}); searched {folders}",
        _client_remedy(),
    )


def _python_version() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _refused(library: Path) -> str:
    """Why the system cannot load a library that is there; its text names the file."""
    if not library.is_file():
        return ""
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        return str(error)
    return ""


def _client_remedy() -> str:
    return codes.INSTALL_CLIENT + "; or set bindings_path and library_path"


def _folder(library_path: str) -> Path:
    """The folder of the library, which people name as a file as well."""
    path = Path(library_path)
    return path.parent if path.is_file() else path


def _major_of_name(folder: Path) -> int:
    match = re.search(r"-(\d+)$", folder.name)
    return int(match[1]) if match else -1
