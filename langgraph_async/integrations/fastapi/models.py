"""What the routes take and give."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from langgraph_async.types import All, Command, Durability, MultitaskStrategy, StreamMode


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CommandRequest(_Strict):
    """Steers a run: an answer, an update, where to go on."""

    resume: Any = Field(
        default=None, description="The answer to the open question, or a dict from question ids to answers."
    )
    update: Any = Field(default=None, description="A state update to apply first.")
    goto: str | list[str] = Field(default=[], description="Nodes to go on with.")

    def command(self) -> Command[Any]:
        """Return it as a `Command`; an answer of null is an answer, a missing one is none."""
        given: dict[str, Any] = {"update": self.update, "goto": self.goto}
        if "resume" in self.model_fields_set:
            given["resume"] = self.resume
        return Command(**given)


class RunOptions(_Strict):
    """How a run goes on."""

    run_id: str | None = Field(default=None, min_length=1, max_length=200, description="Made if there is none.")
    checkpoint_id: str | None = Field(
        default=None, description="Where to go on from; by default the newest checkpoint."
    )
    interrupt_before: All | list[str] | None = Field(default=None, description="Nodes to stop before.")
    interrupt_after: All | list[str] | None = Field(default=None, description="Nodes to stop after.")
    durability: Durability | None = Field(default=None, description="When checkpoints are stored.")
    multitask_strategy: MultitaskStrategy | None = Field(
        default=None, description="What to do when the thread is busy."
    )
    on_disconnect: Literal["cancel", "continue"] | None = Field(
        default=None, description="What becomes of the run when the client goes away."
    )

    def arguments(self) -> dict[str, Any]:
        """Return what is passed to the graph as it is."""
        names = ("interrupt_before", "interrupt_after", "durability")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


class RunRequest(RunOptions):
    """A run: with a new input, with a command, or with neither, to go on where the thread stands."""

    input: Any = Field(default=None, description="A new input.")
    command: CommandRequest | None = Field(default=None, description="Instead of an input.")


class StreamOptions(_Strict):
    """What is streamed."""

    stream_mode: StreamMode | list[StreamMode] | None = Field(
        default=None, description="By default what the server streams."
    )
    subgraphs: bool = Field(default=False, description="Include the events of nested graphs.")


class StreamRequest(RunRequest, StreamOptions):
    """A run whose events are streamed."""


class AnswerRequest(RunOptions):
    """An answer to a question, or answers to several by their ids; exactly one of the two."""

    answer: Any = Field(default=None, description="The answer to the one open question; null is an answer, too.")
    answers: dict[str, Any] | None = Field(
        default=None, description="Answers by the ids of their questions.", min_length=1
    )

    def resume(self) -> Any:
        """Return what `Command` takes.

        Raises:
            ValueError: There is neither an answer nor answers, or both.
        """
        if ("answer" in self.model_fields_set) == (self.answers is not None):
            raise ValueError("Pass either 'answer' or 'answers'.")
        return self.answers if self.answers is not None else self.answer


class AnswerStreamRequest(AnswerRequest, StreamOptions):
    """Answers, after which the run's events are streamed."""


class Question(BaseModel):
    """A question that a paused run asks."""

    id: str
    value: Any
    response_schema: dict[str, Any] | None = None


class RunResult(BaseModel):
    """How a run ended."""

    run_id: str
    thread_id: str
    status: Literal["done", "paused"]
    output: Any = Field(description="The graph's output.")
    interrupts: list[Question] = Field(description="What a paused run asks.")


class RunInfo(BaseModel):
    """A run that the event log has."""

    run_id: str
    thread_id: str | None
    status: str
    first_seq: int = Field(description="The oldest event that is kept.")
    last_seq: int = Field(description="The newest event.")


class TaskInfo(BaseModel):
    """A task that is still to run, or was not finished."""

    id: str
    name: str
    error: str | None
    interrupts: list[Question]


class ThreadState(BaseModel):
    """The state of a thread at one checkpoint."""

    values: Any
    next: list[str] = Field(description="Nodes that are still to run; none when the run has finished.")
    checkpoint_id: str | None
    parent_checkpoint_id: str | None
    created_at: str | None
    metadata: dict[str, Any] | None
    tasks: list[TaskInfo]
    interrupts: list[Question] = Field(description="The open questions.")


class UpdateRequest(_Strict):
    """A change of the state, as if a node had returned it."""

    values: Any = Field(default=None, description="What the node would have returned.")
    as_node: str | None = Field(default=None, description="The node; needed when it cannot be told.")
    checkpoint_id: str | None = Field(default=None, description="The checkpoint to fork from.")


class CheckpointInfo(BaseModel):
    """A checkpoint."""

    checkpoint_id: str | None


class CancelRequest(_Strict):
    """Which run is to end, and how."""

    run_id: str | None = Field(default=None, description="By default all that run on the thread.")
    action: Literal["cancel", "drain"] = Field(default="cancel", description="At once, or after the step in flight.")
    wait: bool = Field(default=True, description="Answer when it has ended.")


class Cancelled(BaseModel):
    """The runs that were asked to end."""

    run_ids: list[str]


class ErrorDetail(BaseModel):
    """What went wrong."""

    type: str = Field(description="Name of the error's class.")
    code: str | None = Field(description="Its stable code.")
    message: str


class ErrorBody(BaseModel):
    """The body of an answer that is an error."""

    detail: ErrorDetail
