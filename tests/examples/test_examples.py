"""Every example runs as it stands, the way a reader would start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def command(name: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}


def run(name: str, *arguments: str | Path, cwd: Path, answers: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(name, *arguments),
        input=answers,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env=environment(),
        timeout=60,
        check=False,
    )


@dataclass(frozen=True)
class Report:
    stdout: str
    stderr: str
    file: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, source, and everything a folder may hold that is neither."""
    folder = tmp_path_factory.mktemp("given") / "folder"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "secret.txt").write_text("unseen")
    (folder / "notes.md").write_text("# Title\n\nsome words | here\n## Part\n")
    (folder / "deep" / "code.py").write_text(
        "def first():\n    return second  # TODO: later\n\n\nclass Third:\n    pass\n"
    )
    (folder / "deep" / "er" / "latin.txt").write_bytes(b"caf\xe9\n")
    (folder / "image.bin").write_bytes(b"\x00\x01\x02")
    (folder / "empty.txt").write_bytes(b"")
    return folder


@pytest.fixture(scope="module")
def written(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """What the folder report says and writes when it is approved in advance."""
    cwd = tmp_path_factory.mktemp("written")
    result = run("folder_report.py", folder, "--yes", "--output", cwd / "out" / "report.md", cwd=cwd)

    assert result.returncode == 0, result.stderr
    return Report(result.stdout, result.stderr, (cwd / "out" / "report.md").read_text(encoding="utf-8"))


def report_row(report: str, path: str) -> str:
    return next(line for line in report.splitlines() if line.startswith(f"| {path} |"))


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "fastapi_chat.py",
        "folder_report.py",
        "human_approval.py",
        "map_reduce.py",
        "reconnecting_client.py",
        "rich_progress.py",
        "streaming_progress.py",
    }


def test_the_chat_streams_its_answers_and_pays_when_a_person_agrees(tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="FastAPI is not installed (pip install fastapi)")

    result = run("fastapi_chat.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "> good morning",
        "You said: good morning [done]",
        "> pay 500 to Bob",
        "PAY 500 Bob [paused]",
        "asked: Pay 500 to Bob?",
        "Paid 500 to Bob.",
    ]


def test_the_reconnecting_client_misses_nothing(tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="FastAPI is not installed (pip install fastapi)")

    result = run("reconnecting_client.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "20 lines, from 'line 1' to 'line 20', over 4 connections",
        "without gaps or repeats: True",
    ]


def test_human_approval_pauses_and_goes_on_with_the_corrected_amount(tmp_path: Path) -> None:
    result = run("human_approval.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "Ann: paid 20",
        "asked: Pay 5000 to Bob?",
        "waiting in: review",
        "Bob: paid 500",
    ]


def test_map_reduce_gathers_in_the_order_of_the_sends(tmp_path: Path) -> None:
    result = run("map_reduce.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["words per text: [9, 3, 8]", "the: 3", "dog: 3", "fox: 2"]


def test_streaming_progress_shows_each_nodes_steps_before_its_update(tmp_path: Path) -> None:
    result = run("streaming_progress.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    soup = [line for line in lines if line.startswith("soup") or "{'soup'" in line]
    assert soup == [
        "soup: chop (33%)",
        "soup: simmer (67%)",
        "soup: season (100%)",
        "updates: {'soup': {'served': ['soup']}}",
    ]
    assert lines[-1] == "values: {'served': ['bread', 'soup']}"


def test_rich_progress_draws_a_full_bar_for_each_file(tmp_path: Path) -> None:
    result = run("rich_progress.py", "3", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    *bars, total = result.stdout.splitlines()
    assert [line.split()[0] for line in bars if "100%" in line] == ["file-00.txt", "file-01.txt", "file-02.txt"]
    assert total == "3 files, 3300 bytes"


def test_progress_without_rich_is_told_in_lines(tmp_path: Path) -> None:
    path = str(EXAMPLES / "rich_progress.py")
    program = f"import runpy, sys; sys.modules['rich'] = None; runpy.run_path({path!r}, run_name='__main__')"
    result = subprocess.run(
        [sys.executable, "-c", program, "3"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )

    assert result.returncode == 0, result.stderr
    *lines, total = result.stdout.splitlines()
    assert sorted(lines) == ["file-00.txt: done", "file-01.txt: done", "file-02.txt: done"]
    assert total == "3 files, 3300 bytes"


def test_the_folder_report_is_written_when_approved_in_advance(written: Report) -> None:
    report = written.file

    assert report == written.stdout
    assert "5 files, 11 lines, " in report
    assert report_row(report, "notes.md").endswith("| Title, Part |")
    assert report_row(report, "deep/code.py").endswith("| first, Third |")
    assert "- deep/code.py:2 TODO: later" in report
    assert "secret" not in report


def test_the_folder_report_names_files_that_are_not_text(written: Report) -> None:
    for line in ("- image.bin: binary", "- empty.txt: empty", "- deep/er/latin.txt: not UTF-8 (first at byte 3)"):
        assert line in written.stdout.splitlines()


def test_the_folder_report_shows_progress_for_each_file(written: Report) -> None:
    progress = [line.split("] ")[0] for line in written.stderr.splitlines() if line.startswith("[")]
    assert progress == [f"[{n}/5" for n in range(1, 6)]


@pytest.mark.parametrize(("answers", "written"), [("p\nperhaps\ny\n", True), ("n\n", False), ("", False)])
def test_the_folder_report_does_what_the_person_answers(
    folder: Path, tmp_path: Path, answers: str, written: bool
) -> None:
    result = run("folder_report.py", folder, cwd=tmp_path, answers=answers)

    assert result.returncode == 0, result.stderr
    assert (tmp_path / "folder-report.md").exists() is written


def test_the_folder_report_keeps_to_the_patterns(folder: Path, tmp_path: Path) -> None:
    result = run("folder_report.py", folder, "--yes", "--glob", "*.md", "deep/*.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert "2 files, " in result.stdout


def test_the_folder_report_of_an_empty_folder_says_so(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()

    result = run("folder_report.py", tmp_path / "none", "--yes", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert "0 files, 0 lines, 0 words." in result.stdout


def test_the_folder_report_of_no_folder_is_a_usage_error(tmp_path: Path) -> None:
    result = run("folder_report.py", tmp_path / "missing", cwd=tmp_path)

    assert result.returncode == 2
    assert "is not a folder" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_folder_report_fails_plainly_where_it_cannot_write(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")

    result = run("folder_report.py", folder, "--yes", "--output", tmp_path / "taken" / "report.md", cwd=tmp_path)

    assert result.returncode == 1
    assert "cannot write" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT to a child process")
def test_the_folder_report_ends_at_ctrl_c_and_writes_nothing(folder: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        command("folder_report.py", folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(),
    ) as process:
        assert process.stderr is not None
        seen = ""
        try:
            while "[p]review" not in seen:
                line = process.stderr.readline()
                assert line, seen
                seen += line
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=30)
        finally:
            process.kill()

    assert process.returncode == 130
    assert "no report was written" in rest
    assert "Traceback" not in rest
    assert not (tmp_path / "folder-report.md").exists()


@pytest.fixture(scope="module")
def many_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    for number in range(150):
        (folder / f"{number:03}.txt").write_text(f"word{number % 7} again\n" * (number + 1))
    return folder


@pytest.fixture(scope="module")
def undisturbed(many_files: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report on `many_files` of a run that was not killed."""
    cwd = tmp_path_factory.mktemp("undisturbed")
    result = run("folder_report.py", many_files, "--yes", "--output", "one.md", cwd=cwd)

    assert result.stdout == (cwd / "one.md").read_text()
    return result.stdout


def kill_when_it_says(text: str, *arguments: str | Path, cwd: Path) -> None:
    with subprocess.Popen(
        command("folder_report.py", *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment(),
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if text in line:
                    break
            else:
                pytest.fail(f"it never said {text!r}")
        finally:
            process.kill()


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("files to examine", marks=pytest.mark.slow),
        pytest.param("[1/150]", marks=pytest.mark.slow),
        pytest.param("[70/150]", marks=pytest.mark.slow),
        "[p]review",
    ],
)
def test_the_folder_report_goes_on_where_it_was_killed(
    many_files: Path, undisturbed: str, tmp_path: Path, moment: str
) -> None:
    kill_when_it_says(moment, many_files, "--output", "two.md", "--jobs", "1", cwd=tmp_path)
    result = run("folder_report.py", many_files, "--yes", "--output", "two.md", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert "going on where the last run was stopped" in result.stderr
    assert (tmp_path / "two.md").read_text() == undisturbed
    assert result.stdout == undisturbed
    examined = [line for line in result.stderr.splitlines() if line.startswith("[")]
    if moment == "[p]review":  # before that, how much is stored when the kill comes is up to the machine
        assert examined == []


def test_the_folder_report_forgets_a_run_that_is_done(folder: Path, tmp_path: Path) -> None:
    for _ in range(2):
        result = run("folder_report.py", folder, "--yes", cwd=tmp_path)

        assert "going on" not in result.stderr
        assert "files to examine" in result.stderr
