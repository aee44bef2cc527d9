"""How long does a fresh interpreter take to import the library and the names that a first graph needs?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from benchmarks.measure import Case, Library, Sample, Sampler
from benchmarks.report import main

PROGRAM = """
import time
wall, cpu = time.perf_counter(), time.process_time()
import {graph}
{graph}.StateGraph
print(time.process_time() - cpu, time.perf_counter() - wall)
"""


def prepare(library: Library) -> Sampler:
    command = [sys.executable, "-c", PROGRAM.format(graph=library.graph)]
    # Both libraries from byte code, as every start but the first one is.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": tempfile.gettempdir() + "/langgraph-async-import-time"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def sampler() -> Sample:
        printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        cpu, wall = map(float, printed.split())
        return Sample(cpu, wall)

    return sampler


CASES = [Case("import_time", "StateGraph", "import", prepare)]

if __name__ == "__main__":
    main(CASES)
