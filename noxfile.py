"""Everything a contributor runs: `nox -l` lists the sessions, `nox -s tests-3.12` runs one."""

from __future__ import annotations

from pathlib import Path

import nox

nox.needs_version = ">=2025.10.14"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "types", "floors", "tests", "docs", "examples"]
nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = True
nox.options.download_python = "never"

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PACKAGE = ["langgraph_async"]
REST = ["tests", "examples", "benchmarks", "noxfile.py"]
PEER = "langgraph==1.2.24"
EXCHANGES = [
    "tests/interop",
    "tests/golden",
    "tests/checkpoint/test_sqlite_peer.py",
    "tests/checkpoint/test_postgres_peer.py",
    "tests/serde/test_peer_interop.py",
]


def install(session: nox.Session, *groups: str) -> None:
    """Install the project, editable, and dependency groups, with uv or with pip, whichever made the environment."""
    if session.venv_backend != "uv":
        session.install("--upgrade", "pip>=25.1")
    session.install("--editable", ".", *(word for group in groups for word in ("--group", group)))


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests on every interpreter found; arguments go to pytest."""
    install(session, "test")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, complexity and formatting."""
    session.install("ruff")
    session.run("ruff", "check", *PACKAGE, *REST)
    session.run("ruff", "format", "--check", *PACKAGE, *REST)


@nox.session
def types(session: nox.Session) -> None:
    """Check the package's types with mypy (strict) and pyright."""
    install(session, "types")
    session.run("mypy")
    session.run("pyright")


@nox.session
def floors(session: nox.Session) -> None:
    """Check that modules import only from lower floors."""
    install(session, "floors")
    session.run("lint-imports")


@nox.session
def docs(session: nox.Session) -> None:
    """Run the code blocks of the README and of docs/, and the examples in docstrings."""
    install(session, "docs")
    session.run("pytest", "tests/docs")


@nox.session
def examples(session: nox.Session) -> None:
    """Run every example the way a reader would."""
    install(session, "test")
    session.run("pytest", "tests/examples")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure beside the peer, in the same process; arguments go to `python -m benchmarks`."""
    install(session, "bench")
    session.run("python", "-m", "benchmarks", *session.posargs)


@nox.session
def sdks(session: nox.Session) -> None:
    """Run the tests that stream through the SDKs of model providers, against servers in the process."""
    install(session, "sdks")
    session.run("pytest", "tests/stream/test_tokens_of_sdks.py", *session.posargs)


@nox.session
def interop(session: nox.Session) -> None:
    """Run the tests that exchange stored data with the peer, with the peer and savers written for it installed."""
    install(session, "test", "interop")
    session.install(PEER)
    python = Path(session.bin) / "python"
    session.run(
        "pytest",
        "-m",
        "slow or not slow",
        *(session.posargs or EXCHANGES),
        env={"LANGGRAPH_ASYNC_PEER_PYTHON": str(python)},
    )


@nox.session
def conformance(session: nox.Session) -> None:
    """Run the public conformance suite for savers of the peer over ours."""
    install(session, "test", "interop")
    session.run("pytest", "tests/interop/test_conformance.py", *session.posargs)


@nox.session
def golden(session: nox.Session) -> None:
    """Record again what both libraries write today; files of other versions stay."""
    install(session, "test", "interop")
    session.install(PEER)
    for package in session.posargs or ("langgraph", "langgraph_async"):
        session.run("python", "tests/golden/record.py", package)
