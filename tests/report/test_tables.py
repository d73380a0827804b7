from __future__ import annotations

import csv
import io
import json

from otel_ofu.report import ReportBuilder, csv_text, json_text, report_of
from otel_ofu.report.tables import COLUMNS
from tests.report.fleet import START_S, gathered, gpu, seen


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_the_csv_has_a_row_for_each_job_and_empty_cells_for_what_is_not_known() -> None:
    report = report_of(gathered({"a": (0.4, 0.8), "b": (0.3, None)}))
    first, second = rows(csv_text(report))
    assert (first["job"], first["mfu"], first["verdict"]) == ("b", "", "silent")
    assert (second["job"], second["mfu_over_ofu"], second["verdict"]) == ("a", "2", "over")
    assert second["start_s"] == f"{START_S:.0f}"
    assert second["held_h"] == "16"
    assert "FP8" in second["reasons"]


def test_a_name_is_no_formula() -> None:
    gather = ReportBuilder()
    names = ['=HYPERLINK("http://x","y")', "+1", "-1", "@x", 'a,b\n"c"']
    gather.observe([seen(gpu(name, n), 0.0, 0.4) for n, name in enumerate(names)])
    found = {row["job"] for row in rows(csv_text(report_of(gather)))}
    assert not any(name.startswith(("=", "+", "-", "@")) for name in found)
    assert 'a,b\N{REPLACEMENT CHARACTER}"c"' in found


def test_no_jobs_give_a_head_alone() -> None:
    assert csv_text(report_of(ReportBuilder())) == ",".join(COLUMNS) + "\r\n"


def test_the_json_holds_series_and_nulls() -> None:
    gather = gathered({"a": (0.4, 0.8)})
    gather.observe([seen(gpu("b"), 0.0, 0.4), seen(gpu(""), 0.0, 0.1)])
    tree = json.loads(json_text(report_of(gather, ["x.jsonl"], ["a note"])))
    jobs = {job["job"]: job for job in tree["jobs"]}
    assert jobs["a"]["series"]["ofu"][0] == 0.4
    assert jobs["a"]["series"]["mfu"][0] == 0.8
    assert jobs["b"]["series"]["mfu"] == [None]
    assert jobs["b"]["mfu"] is None
    assert jobs["b"]["skus"] == ["h100-sxm5"]
    assert tree["without_job"]["ofu"] == 0.1
    assert tree["summary"]["jobs_without_mfu"] == 1
    assert tree["notes"] == ["a note"]
    assert tree["sources"] == ["x.jsonl"]
