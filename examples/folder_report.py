"""Read every text file of a folder at once, ask a person, and write a report.

    python examples/folder_report.py PATH [--yes] [--output FILE] [--glob PATTERN ...] [--state FILE]

The graph: `collect` lists the files, one `examine` task runs for each of them (`Send`), reducers gather what they
found, `draft` writes the report, `approve` pauses the run until somebody answers, and `publish` puts the report where
it belongs.

Every step is stored in a SQLite file beside the report. Stopped or killed at any moment, even while it asks, and
started again with the same arguments, it goes on where it was: files that were examined are not examined again. When
the report is done, or refused, what was stored of it is deleted.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import keyword
import operator
import os
import re
import stat
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from langgraph_async import END, START, Command, Send, StateGraph, interrupt
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.types import StreamWriter

SKIPPED_FOLDERS = {"__pycache__", "node_modules", "dist", "build", "target"}
LARGEST_FILE_BYTES = 20_000_000
WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
IDENTIFIER = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]{2,}\b")
MARK = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b[:\s]*(.*)")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$")
DEFINITION = re.compile(
    r"^\s*(?:export\s+|pub\s+|public\s+|private\s+|static\s+|default\s+)*"
    r"(?:async\s+)?(?:def|class|function|func|fn|struct|enum|trait|interface|module|type)\s+([A-Za-z_]\w*)"
)
PROSE = {".md", ".markdown", ".rst", ".txt", ".adoc"}
KEYWORDS = {word.lower() for word in (*keyword.kwlist, *keyword.softkwlist)}
COMMON_WORDS = """
    self cls const let var function export public private static void new this null undefined the that are you
    but his they have had was what when where which will would there their one all can has its our out into than
    then them these some only any
"""
UNTOLD = KEYWORDS | set(COMMON_WORDS.split())


class Finding(TypedDict):
    """What one file is like. `problem` says why it could not be read, or what was odd about it."""

    path: str
    problem: str | None
    lines: int
    words: int
    longest_line: tuple[int, int]
    outline: list[str]
    marks: list[tuple[int, str]]
    names: list[tuple[str, int]]


class Job(TypedDict):
    """The input of one `examine` task."""

    folder: str
    path: str


def add_counts(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    """Reducer: add up two tallies."""
    return dict(Counter(left) + Counter(right))


class State(TypedDict, total=False):
    """The state of a run; annotated keys have a reducer, so that many tasks can write them in one step."""

    folder: str
    globs: list[str]
    output: str
    paths: list[str]
    findings: Annotated[list[Finding], operator.add]
    totals: Annotated[dict[str, int], add_counts]
    report: str
    written: str


# -- the work on one file -------------------------------------------------------------------------------------


def read_text(path: Path) -> tuple[str, str | None]:
    """Return a file's text and what was odd about it; raise ValueError or OSError when there is no text to have."""
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise ValueError("not a regular file")
    if info.st_size > LARGEST_FILE_BYTES:
        raise ValueError(f"larger than {LARGEST_FILE_BYTES // 1_000_000} MB")
    raw = path.read_bytes()
    if b"\0" in raw[:8192]:
        raise ValueError("binary")
    try:
        return raw.decode("utf-8-sig"), None if raw else "empty"
    except UnicodeDecodeError as exc:
        return raw.decode("utf-8", errors="replace"), f"not UTF-8 (first at byte {exc.start})"


def outline_of(lines: list[str], suffix: str) -> list[str]:
    """Return the headings of prose, or the names that source code defines, in order."""
    pattern = HEADING if suffix in PROSE else DEFINITION
    return [found[1] for line in lines if (found := pattern.match(line))]


def inspect_text(path: str, text: str, problem: str | None) -> Finding:
    """Return what `text` is like."""
    lines = text.splitlines()
    number, longest = max(enumerate(lines, 1), key=lambda pair: len(pair[1]), default=(0, ""))
    marks = [(at, found[0].strip()[:100]) for at, line in enumerate(lines, 1) if (found := MARK.search(line))]
    names = Counter(name for name in IDENTIFIER.findall(text) if name.lower() not in UNTOLD)
    return Finding(
        path=path,
        problem=problem,
        lines=len(lines),
        words=sum(1 for _ in WORD.finditer(text)),
        longest_line=(number, len(longest)),
        outline=outline_of(lines, Path(path).suffix.lower()),
        marks=marks,
        names=names.most_common(50),
    )


# -- the nodes ------------------------------------------------------------------------------------------------


def collect(state: State) -> dict[str, Any]:
    """List the files, sorted, so that the report does not depend on the order the disk gives them in."""
    folder, output = Path(state["folder"]), Path(state["output"]).resolve()
    paths: list[str] = []
    unreadable: list[Finding] = []

    def note(exc: OSError) -> None:
        unreadable.append(inspect_text(os.path.relpath(exc.filename, folder), "", exc.strerror or "unreadable folder"))

    for parent, folders, files in os.walk(folder, onerror=note):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith("."))
        for name in files:
            path = Path(parent, name)
            relative = path.relative_to(folder).as_posix()
            wanted = any(fnmatch(relative, glob) or fnmatch(name, glob) for glob in state["globs"])
            if wanted and not name.startswith(".") and path.resolve() != output:
                paths.append(relative)
    return {"paths": sorted(paths), "findings": unreadable}


def fan_out(state: State) -> list[Send] | Literal["draft"]:
    """Start one task for each file."""
    return [Send("examine", Job(folder=state["folder"], path=path)) for path in state["paths"]] or "draft"


def examine(job: Job, writer: StreamWriter) -> dict[str, Any]:
    """Examine one file. A plain function: it runs in a worker thread, so reading blocks nobody."""
    path = job["path"]
    try:
        text, problem = read_text(Path(job["folder"], path))
    except (OSError, ValueError) as exc:
        reason = exc.strerror or type(exc).__name__ if isinstance(exc, OSError) else str(exc)
        text, problem = "", reason
    finding = inspect_text(path, text, problem)
    writer({"examined": path, "problem": problem})
    return {"findings": [finding], "totals": {"files": 1, "lines": finding["lines"], "words": finding["words"]}}


def draft(state: State) -> dict[str, Any]:
    """Write the report as Markdown."""
    return {"report": render(state)}


def approve(state: State) -> Command[Literal["publish", "__end__"]]:
    """Pause until a person has answered. On resume, `interrupt` returns the answer."""
    answer = interrupt(
        {
            "question": f"Write the report to {state['output']}?",
            "preview": state["report"],
            "files": len(state["paths"]),
        }
    )
    return Command(goto="publish" if answer else END)


def publish(state: State) -> dict[str, Any]:
    """Write the file in one move, so that nobody ever sees half a report."""
    target = Path(state["output"])
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    partial.write_text(state["report"], encoding="utf-8")
    partial.replace(target)
    return {"written": str(target)}


def build_graph(saver: AsyncSqliteSaver) -> Any:
    """Return the compiled graph, whose threads `saver` keeps."""
    builder = StateGraph(State)
    for node in (collect, examine, draft, approve, publish):
        builder.add_node(node)
    builder.add_edge(START, "collect")
    builder.add_conditional_edges("collect", fan_out, ["examine", "draft"])
    builder.add_edge("examine", "draft")
    builder.add_edge("draft", "approve")
    builder.add_edge("publish", END)
    return builder.compile(checkpointer=saver, name="folder_report")


# -- the report -----------------------------------------------------------------------------------------------


def cell(text: str) -> str:
    """Return `text` fit for a cell of a Markdown table."""
    return "".join(char if char.isprintable() else "?" for char in text).replace("|", "\\|").replace("`", "'")


def render(state: State) -> str:
    """Return the report as Markdown."""
    findings = state.get("findings", [])
    totals = Counter(state.get("totals", {}))
    out = [
        f"# Report on {cell(Path(state['folder']).resolve().name)}",
        "",
        f"{totals['files']} files, {totals['lines']} lines, {totals['words']} words.",
        "",
    ]
    if findings:
        out += ["| file | lines | words | longest line | headings or definitions |", "|---|---:|---:|---:|---|"]
    for f in findings:
        shown = ", ".join(cell(name) for name in f["outline"][:5]) + (", ..." if len(f["outline"]) > 5 else "")
        longest = f"{f['longest_line'][1]} (line {f['longest_line'][0]})" if f["lines"] else "-"
        out.append(f"| {cell(f['path'])} | {f['lines']} | {f['words']} | {longest} | {shown or '-'} |")
    names: Counter[str] = Counter()
    for f in findings:
        names.update(dict(f["names"]))
    if names:
        ranked = sorted(names.items(), key=lambda item: (-item[1], item[0]))[:15]
        out += ["", "## Most frequent names", "", *(f"- `{name}`: {count}" for name, count in ranked)]
    marks = [(f["path"], at, text) for f in findings for at, text in f["marks"]]
    if marks:
        out += ["", "## Left to do", "", *(f"- {cell(path)}:{at} {cell(text)}" for path, at, text in marks)]
    problems = [(f["path"], f["problem"]) for f in findings if f["problem"]]
    if problems:
        out += ["", "## Worth a look", "", *(f"- {cell(path)}: {problem}" for path, problem in problems)]
    return "\n".join(out) + "\n"


# -- the terminal ---------------------------------------------------------------------------------------------


def say(text: str) -> None:
    """Print progress to standard error: standard output carries the report alone."""
    print(text, file=sys.stderr, flush=True)


async def advance(graph: Any, given: Any, config: dict[str, Any]) -> dict[str, Any] | None:
    """Run the graph, showing progress, until it has finished (None) or asks something (the question)."""
    before = await graph.aget_state(config)
    total, question = len(before.values.get("paths", [])), None
    done = sum(task.name == "examine" and task.result is not None for task in before.tasks)
    async for mode, chunk in graph.astream(given, config, stream_mode=["updates", "custom"]):
        if mode == "custom":
            done += 1
            note = f" ({chunk['problem']})" if chunk["problem"] else ""
            say(f"[{done}/{total}] {chunk['examined']}{note}")
        elif "collect" in chunk:
            total = len(chunk["collect"]["paths"])
            say(f"{total} files to examine")
        elif "__interrupt__" in chunk:
            question = chunk["__interrupt__"][0].value
        elif "publish" in chunk:
            say(f"written: {chunk['publish']['written']}")
    return question


def ask(question: dict[str, Any]) -> bool:
    """Ask in the terminal; the end of the input counts as no."""
    while True:
        try:
            say(f"{question['question']} [y]es, [n]o, [p]review")
            answer = input().strip().lower()
        except EOFError:
            return False
        if answer in ("y", "yes"):
            return True
        if answer in ("n", "no"):
            return False
        if answer in ("p", "preview"):
            say(question["preview"])


async def run_until_asked(chosen: argparse.Namespace) -> dict[str, Any]:
    """Run from the start, or from where an earlier run was stopped, until the graph asks."""
    start: State = {"folder": str(chosen.path), "globs": chosen.glob, "output": str(chosen.output)}
    chosen.state.parent.mkdir(parents=True, exist_ok=True)
    async with AsyncSqliteSaver.from_conn_string(str(chosen.state)) as saver:
        graph = build_graph(saver)
        stopped = (await graph.aget_state(config_of(chosen))).next
        if stopped:
            say("going on where the last run was stopped")
        question = await advance(graph, None if stopped else start, config_of(chosen))
    assert question is not None
    return question


async def finish(chosen: argparse.Namespace, approved: bool) -> None:
    """Answer, run to the end, and forget what was stored."""
    async with AsyncSqliteSaver.from_conn_string(str(chosen.state)) as saver:
        await advance(build_graph(saver), Command(resume=approved), config_of(chosen))
        await saver.adelete_thread(thread_of(chosen))


def thread_of(chosen: argparse.Namespace) -> str:
    """Return the thread of a report: the same arguments mean the same report."""
    return repr((str(chosen.path.resolve()), sorted(chosen.glob), str(chosen.output.resolve())))


def config_of(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the config of the runs."""
    return {"configurable": {"thread_id": thread_of(chosen)}, "max_concurrency": chosen.jobs}


def arguments() -> argparse.Namespace:
    """Return the command line's arguments, or exit with a usage message."""
    parser = argparse.ArgumentParser(description="Report on the text and source files of a folder.")
    parser.add_argument("path", type=Path, help="the folder")
    parser.add_argument("--yes", action="store_true", help="write the report without asking")
    parser.add_argument("--output", type=Path, default=Path("folder-report.md"), help="default: %(default)s")
    parser.add_argument(
        "--glob", nargs="+", default=["*"], metavar="PATTERN", help="only files that match one of these"
    )
    parser.add_argument("--jobs", type=int, default=32, help="files examined at once (default: %(default)s)")
    parser.add_argument("--state", type=Path, help="where the run is kept (default: .folder-report.sqlite beside it)")
    chosen = parser.parse_args()
    if chosen.state is None:
        chosen.state = chosen.output.parent / ".folder-report.sqlite"
    if not chosen.path.is_dir():
        parser.error(f"{chosen.path} is not a folder")
    if chosen.jobs < 1:
        parser.error("--jobs must be at least 1")
    return chosen


def main() -> int:
    """Run until the graph asks, put the question, and go on with the answer."""
    chosen = arguments()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        # Between the two runs nothing is left running: the thread waits in the saver, and the terminal may block.
        question = asyncio.run(run_until_asked(chosen))
        approved = chosen.yes or ask(question)
        asyncio.run(finish(chosen, approved))
    except KeyboardInterrupt:
        say("stopped; no report was written. Start it again to go on")
        return 130
    except OSError as exc:
        say(f"cannot write {chosen.output}: {exc.strerror or exc}")
        return 1
    print(question["preview"], end="")
    if not approved:
        say("not approved; nothing was written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
