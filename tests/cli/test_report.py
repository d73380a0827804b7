"""`otel-ofu report …` as its users type it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from otel_ofu.cli import main
from tests.app.test_report_recordings import record
from tests.cli.command import run
from tests.export.servers import Reply, http_server


def test_a_page_a_csv_and_a_json_come_of_recordings(tmp_path: Path) -> None:
    paths = [record(tmp_path, s, s) for s in ("healthy", "flops-miscount")]
    done = run(tmp_path, "report", *paths, "--reports", "reports.jsonl", "-o", "r.html")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 jobs, 2 with MFU; 1 flagged\nr.html, r.csv, r.json\n"
    assert "experts in a latent space" in (tmp_path / "r.html").read_text()
    assert (tmp_path / "r.csv").read_text().count("\n") == 3
    assert json.loads((tmp_path / "r.json").read_text())["summary"]["jobs_flagged"] == 1
    assert not list(tmp_path.glob("*.part"))


def test_gpus_without_a_job_can_be_given_to_one(tmp_path: Path) -> None:
    path = record(tmp_path, "healthy", "a", range(1, 4))
    text = Path(path).read_text().replace('"owner":{"ofu.job.id":"a"}', '"owner":{}')
    Path(path).write_text(text)
    done = run(tmp_path, "report", path, "--job", "mine", "--target-ofu", "50%", "-o", "r.html")
    assert done.stdout.startswith("1 job, 0 with MFU; 0 flagged\n")
    assert json.loads((tmp_path / "r.json").read_text())["target_ofu"] == 0.5


def test_a_server_is_asked(tmp_path: Path) -> None:
    sample = {"metric": {"ofu_job_id": "a"}, "value": [1.0, "2400"]}
    body = {"status": "success", "data": {"resultType": "vector", "result": [sample]}}
    reply = Reply(body=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
    with http_server(*[reply] * 18) as server:
        done = run(
            tmp_path,
            *("report", "--from", server.url, "--since", "2026-11-01T00:00", "-o", "r.html"),
            *("--until", "2026-11-01T00:10", "--step", "5m"),
        )
    assert done.returncode == 0, done.stderr
    tree = json.loads((tmp_path / "r.json").read_text())
    assert (tree["start_s"], tree["end_s"]) == (1793491200.0, 1793491800.0)
    assert math.isclose(tree["summary"]["held_h"], 2 * 2400 / 3600)
    assert tree["sources"] == [server.url]


@pytest.mark.parametrize(
    "case",
    [
        (["-o", "r.html"], 2, "name recordings, or --from URL"),
        (["a.jsonl", "--from", "http://x", "-o", "r.html"], 2, "exclude each other"),
        (["a.jsonl", "-o", "r.html"], 2, "a.jsonl: cannot be read"),
        (["a.jsonl", "-o", "r.pdf"], 2, "a name that ends in .html"),
        (["a.json", "-o", "a.html"], 2, "a.json is read, and would be written"),
        (["a.jsonl", "--since", "1h", "-o", "r.html"], 2, "go with --from"),
        (["--from", "http://x", "--job", "a", "-o", "r.html"], 2, "go with recordings"),
        (["--from", "x", "-o", "r.html"], 2, "allowed: http(s)://host"),
        (["--from", "http://127.0.0.1:9", "-o", "r.html"], 1, "http://127.0.0.1:9/api/v1/query"),
        (["--from", "http://x", "--since", "1h", "--until", "2h", "-o", "r.html"], 1, "before"),
        (["a.jsonl", "--target-ofu", "0", "-o", "r.html"], 2, "at most 100%"),
        (["--from", "http://x", "--since", "soon", "-o", "r.html"], 2, "--since"),
    ],
)
def test_wrong_words_are_told_clearly(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    case: tuple[list[str], int, str],
) -> None:
    words, status, told = case
    monkeypatch.chdir(tmp_path)
    try:
        found: object = main.run(["report", *words])
    except SystemExit as error:  # argparse ends so
        found = error.code
    assert found == status
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_page_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    path = record(tmp_path, "healthy", "a", range(1, 4))
    done = run(tmp_path, "report", path, "-o", "nowhere/r.html")
    assert done.returncode == 1
    assert "nowhere/r.html: cannot be written: No such file or directory" in done.stderr
