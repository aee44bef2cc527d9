"""Run all benchmarks, or those named, and print one table: `python -m benchmarks [chain loop ...]`."""

from __future__ import annotations

from benchmarks import (
    chain,
    chat,
    concurrent_runs,
    fan_out,
    history,
    import_time,
    large_graph,
    loop,
    policies,
    serializer,
    sse_clients,
    stored_steps,
    streaming,
    wide_state,
)
from benchmarks.report import parser, run

ALL = {
    "import_time": import_time.CASES,
    "chain": chain.CASES,
    "loop": loop.CASES,
    "fan_out": fan_out.CASES,
    "wide_state": wide_state.CASES,
    "large_graph": large_graph.CASES,
    "serializer": serializer.CASES,
    "stored_steps": stored_steps.CASES,
    "concurrent_runs": concurrent_runs.CASES,
    "chat": chat.CASES,
    "history": history.CASES,
    "policies": policies.CASES,
    "streaming": streaming.CASES,
    "sse_clients": sse_clients.CASES,
}

if __name__ == "__main__":
    options = parser()
    options.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ALL)}; default: all")
    chosen = options.parse_args()
    if unknown := set(chosen.names) - set(ALL):
        options.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    run([case for name in chosen.names or ALL for case in ALL[name]], chosen)
