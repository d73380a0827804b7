"""What holds for the tests themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

from tests.properties import examples

ROOT = Path(__file__).resolve().parents[1]
LOOK = "import sys, tests.conftest; print(*{'cryptography', 'pynvml'} & set(sys.modules))"


def test_a_run_of_any_test_loads_neither_the_driver_nor_cryptography() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"


def test_time_decides_no_property() -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check


def test_a_property_asks_for_more_examples_than_the_profile_in_force() -> None:
    assert examples(2).max_examples == 2 * settings().max_examples
