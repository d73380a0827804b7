"""Why the source cannot work here: a sentence and a remedy for each cause."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from otel_ofu.model import Trouble
from otel_ofu.model.clock import VirtualClock
from otel_ofu.model.errors import SourceUnavailable
from otel_ofu.sources import Source
from otel_ofu.sources.nvml import NvmlSource
from tests.sources.nvml.rig import LOST, NO_PERMISSION, UNKNOWN, Rig, Stub, uuid
from tests.waiting import HANGS_S


def refusal(library: str) -> SourceUnavailable:
    with pytest.raises(SourceUnavailable) as error:
        NvmlSource(library, clock=VirtualClock()).read(0.0)
    return error.value


@pytest.mark.parametrize("path", ["/nowhere/libnvidia-ml.so.1", "/etc/hostname", "/tmp"])
def test_a_path_that_is_no_library_is_named(path: str) -> None:
    error = refusal(path)
    assert f"cannot load the NVIDIA driver library {path}" in str(error)
    assert "libnvidia-ml.so.1" in error.remedy


@pytest.mark.parametrize(
    ("code", "message", "remedy"),
    [
        (9, "kernel driver is not loaded: Driver Not Loaded (9)", "modprobe nvidia"),
        (NO_PERMISSION, "no permission to open the NVIDIA driver", "/dev/nvidia*"),
        (18, "are of different versions", "reboot"),
        (UNKNOWN, "the NVIDIA driver did not start: Unknown Error (999)", "nvidia-smi"),
    ],
)
def test_each_failure_to_start_has_its_sentence_and_its_remedy(
    stub: Stub, code: int, message: str, remedy: str
) -> None:
    stub.set(nvmlInitWithFlags=code)
    error = refusal(stub.path)
    assert message in str(error)
    assert remedy in error.remedy
    assert stub.references == 0


def test_a_driver_without_gpus_is_not_a_source(stub: Stub) -> None:
    stub.set(gpus=0)
    stub.text(driver="580.82.07")
    error = refusal(stub.path)
    assert str(error) == "NVIDIA driver 580.82.07 is loaded but shows no GPU"
    assert "--gpus all" in error.remedy
    assert stub.references == 0


def test_gpus_that_none_may_be_opened_are_all_named(stub: Stub) -> None:
    stub.set(gpus=2, nvmlDeviceGetHandleByIndex_v2=NO_PERMISSION)
    error = refusal(stub.path)
    assert "none of 2 GPUs" in str(error)
    assert "GPU 1: Insufficient Permissions (4)" in str(error)
    assert stub.references == 0


def test_one_gpu_that_cannot_be_opened_leaves_the_others(rig: Rig) -> None:
    rig.stub.set(gpus=3, gpu1__nvmlDeviceGetHandleByIndex_v2=LOST)
    source = rig.open()
    assert set(rig.read()) == {uuid(0), uuid(2)}
    assert source.troubles() == [
        Trouble("GPU 1", "failed", f"cannot be opened: GPU is lost ({LOST})")
    ]


def test_a_source_that_was_not_opened_opens_when_it_is_read(stub: Stub) -> None:
    source: Source = NvmlSource(stub.path, clock=VirtualClock())
    assert stub.references == 0
    assert len(source.read(0.0)) == 1
    source.close()
    assert stub.references == 0


def test_another_library_takes_the_place_of_the_one_before(stub: Stub, tmp_path: Path) -> None:
    other = Stub(Path(shutil.copy(stub.path, tmp_path / "libnvidia-ml.so.590")))
    other.set(gpus=5)
    for library, gpus in ((stub, 1), (other, 5), (stub, 1)):
        source = NvmlSource(library.path, clock=VirtualClock())
        assert len(source.read(0.0)) == gpus
        source.close()


SCRIPT = """
import sys
from otel_ofu.model.clock import SystemClock
from otel_ofu.model.errors import SourceUnavailable
from otel_ofu.sources.nvml import NvmlSource
assert "pynvml" not in sys.modules, "the vendor library is imported too early"
source = NvmlSource(clock=SystemClock())
try:
    print([reading.device.uuid for reading in source.read(0.0)])
except SourceUnavailable as error:
    print(error, "|", error.remedy)
source.close()
"""


def run_script(library_path: str) -> str:
    environment = os.environ | {"LD_LIBRARY_PATH": library_path}
    command = [sys.executable, "-c", SCRIPT]
    root = Path(__file__).parents[3]
    return subprocess.run(
        command,
        env=environment,
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    ).stdout


def test_the_library_is_found_on_the_path_of_the_linker(stub_library: Path) -> None:
    assert run_script(str(stub_library.parent)).strip() == f"['{uuid(0)}']"


@pytest.mark.skipif(
    Path("/proc/driver/nvidia/version").exists(), reason="this machine has an NVIDIA driver"
)
def test_a_machine_without_a_driver_is_told_what_to_install(tmp_path: Path) -> None:
    out = run_script(str(tmp_path))
    assert "no NVIDIA driver library on this machine: libnvidia-ml.so.1" in out
    assert "install the NVIDIA driver" in out
