"""One program, two libraries: what can be seen of a run is the same, but for the differences that are meant.

Runs only where LangGraph can be imported beside this library.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langgraph")

import programs
import programs_nested
import programs_pauses
import programs_raw
import programs_run
import programs_state
import random_graphs
import traces

from langgraph_async.checkpoint.memory import InMemorySaver

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROUTER = "a router that failed: nothing is told of the node until its routing is done"
REFUSED = "refused before anything is stored, with an error that says why"
ORDER = "the order of keys in a node's input"
VALIDATED = "the schema validates what is written, inputs included"
LIMIT = "exactly recursion_limit supersteps"
EXACT = "values come back as the type they were stored as"
STABLE = "questions of a graph that is never stored keep their ids"

MEANT: dict[str, tuple[str, str]] = {
    "branch_mapped": (r"turn 3", ROUTER),
    "branch_bad_results": (r"all turn 0", ROUTER),
    "bad_returns": (r"ReducerError", "a reducer that raises names key and node"),
    "bad_inputs": (r"", REFUSED),
    "stream_mode_forms": (r"^(\('updates', 'values'\)|'nope'|\['nope', 'updates'\]) ", REFUSED),
    "command_input": (r"branch:to:__end__", "going to the end writes nothing"),
    "input_and_output_schema": (r"order of keys", ORDER),
    "channels_in_annotations": (r"order of keys", ORDER),
    "model_state": (r"'1' / 1$", VALIDATED),
    "model_state_bad_input": (r"ValidationError", VALIDATED),
    "send_to_model_node": (r"", VALIDATED),
    "managed_values": (r"", LIMIT),
    "json_schemas": (r"\['default'\]: None / -", "a root model has no default"),
    "two_questions_in_a_row": (r"\['1', '2'\] / \['1'\]", "answers of a finished task are not stored again"),
    "answer_nobody_asked": (r"__start__", "a command on a fresh thread is stored as the input that it amounts to"),
    "context": (r"ValidationError.*ContextError", "a context that does not fit is refused with an error of ours"),
    "run_from_a_checkpoint": (r"\['updated'\]: None /", "a fork keeps what its checkpoint changed"),
    "subgraph_streamed_in_a_node": (r"stored", EXACT),
    "other_schema_in_a_node": (r"\['__start__'\]\['x'\]: 0 / -", "a nested graph stores its own part of the input"),
    "question_in_a_subgraph": (r"^False ", STABLE),
    "question_in_a_called_subgraph": (r"^False ", STABLE),
    "custom_from_a_subgraph": (r"'custom', 'from i'|'type': 'custom'", "chunks go to every stream that wants them"),
}
"""Program to the pattern of the lines that may differ, and why."""

PROGRAMS = {
    name[2:]: function
    for module in (programs, programs_state, programs_pauses, programs_nested, programs_raw, programs_run)
    for name, function in vars(module).items()
    if name.startswith("p_") and inspect.iscoroutinefunction(function)
}


@pytest.fixture(autouse=True)
def _stored_whole(monkeypatch):
    """What is stored is compared value by value: there, lists are not to be stored as what was appended."""
    monkeypatch.setattr(InMemorySaver, "keeps_ancestors", False)


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def _traced(program: Callable[[Any, traces.Trace], Any], package: str) -> traces.Trace:
    trace = traces.Trace(package)
    await program(traces.library(package), trace)
    return trace


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_shows_the_same_on_both_libraries(name):
    theirs = await _traced(PROGRAMS[name], "langgraph")
    ours = await _traced(PROGRAMS[name], "langgraph_async")

    pattern, _ = MEANT.get(name, (None, ""))
    lines = traces.compare(theirs, ours)

    assert [line for line in lines if pattern is None or not re.search(pattern, line)] == []


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("seed", range(40))
async def test_a_random_graph_shows_the_same_on_both_libraries(seed, saved):
    plan = random_graphs.draw(seed)
    ours = await random_graphs.trace_of(traces.library("langgraph_async"), plan, saved=saved)
    if any(label == "raised" and value.classes[0] == "UnreachedJoinError" for label, value in ours.entries):
        pytest.skip("a join that cannot fire is an error here")

    theirs = await random_graphs.trace_of(traces.library("langgraph"), plan, saved=saved)

    assert traces.compare(random_graphs.settled(theirs), random_graphs.settled(ours)) == []
