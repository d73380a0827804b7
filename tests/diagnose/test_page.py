"""docs/causes.md has every shipped cause as it is."""

import importlib.util
from pathlib import Path

from otel_ofu.diagnose import load_causes
from otel_ofu.diagnose.cause import cause_table
from otel_ofu.files.installed import shipped
from tests.diagnose.scene import REGISTRY

PAGE = Path(__file__).resolve().parents[2] / "docs" / "causes.md"
BEGIN, END = "<!-- causes: begin -->\n", "<!-- causes: end -->"


def test_the_page_has_the_causes_of_the_file() -> None:
    book = load_causes(shipped("rules") / "causes.yaml", REGISTRY)
    _, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    assert rest.partition(END)[0] == "\n".join(cause_table(book)) + "\n"


def test_the_page_is_among_those_that_are_written() -> None:
    path = PAGE.parent / "generate.py"
    spec = importlib.util.spec_from_file_location("generate", path)
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert generate.pages()[PAGE] == PAGE.read_text("utf-8")
