"""Messages of langchain's that are made without validating are those that validating makes."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from pydantic import model_validator

from langgraph_async.serde.bare import BareMaker
from langgraph_async.serde.jsonplus import JsonPlusSerializer

USAGE = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
CALL = {"name": "f", "args": {"x": 1}, "id": "c", "type": "tool_call"}
OPENAI_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
BARE = [
    HumanMessage("hi", id="1"),
    HumanMessage("hi", name="me", additional_kwargs={"a": [1]}, response_metadata={"b": {"c": None}}),
    SystemMessage("be kind"),
    AIMessage("yes", id="2"),
    AIMessage("yes", additional_kwargs={"refusal": None}, usage_metadata=USAGE),
    AIMessage("yes", usage_metadata={**USAGE, "input_token_details": {"cache_read": 0}}),
    ToolMessage("42", tool_call_id="c", id="3"),
    ChatMessage("hey", role="critic"),
    RemoveMessage(id="4"),
]
OTHERS = [
    HumanMessage([{"type": "text", "text": "hi"}]),
    HumanMessage("hi", example=True),
    AIMessage("", tool_calls=[CALL]),
    AIMessage("", additional_kwargs={"tool_calls": [OPENAI_CALL]}),
    AIMessageChunk(
        "y", tool_call_chunks=[{"name": "f", "args": "{", "id": "c", "index": 0, "type": "tool_call_chunk"}]
    ),
    ToolMessage("42", tool_call_id="c", artifact={"a": 1}),
    ToolMessage("42", tool_call_id="c", status="error"),
]


def parts(message: BaseMessage) -> tuple[Any, ...]:
    return (
        type(message),
        list(vars(message).items()),
        message.__pydantic_fields_set__,
        message.__pydantic_extra__,
        message.__pydantic_private__,
    )


@pytest.mark.parametrize("message", [*BARE, *OTHERS], ids=repr)
def test_a_message_is_read_as_its_constructor_makes_it(message: BaseMessage) -> None:
    serde = JsonPlusSerializer()
    stored = serde.dumps_typed([message, message])
    validated = type(message)(**message.model_dump())

    assert [parts(each) for each in serde.loads_typed(stored)] == [parts(validated)] * 2


@pytest.mark.parametrize("message", BARE, ids=repr)
def test_a_bare_message_is_validated_the_first_time_only(message: BaseMessage) -> None:
    made: list[Any] = []

    class Counted(type(message)):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made.append(self)
            super().__init__(*args, **kwargs)

    make = BareMaker(Counted)
    for _ in range(3):
        assert make(message.model_dump()) is not None

    assert len(made) == 1


@pytest.mark.parametrize("message", OTHERS, ids=repr)
def test_what_has_a_type_within_is_left_to_the_constructor(message: BaseMessage) -> None:
    assert BareMaker(type(message))({**message.model_dump(), **(message.__pydantic_extra__ or {})}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"content": 1},
        {"id": 5},
        {"type": "ai"},
        {"additional_kwargs": None},
        {"usage_metadata": {**USAGE, "total_tokens": "3"}},
        {"usage_metadata": {"input_tokens": 1}},
        {"tool_calls": ()},
        {"unknown": 1},
    ],
    ids=repr,
)
def test_what_validating_would_refuse_or_change_is_left_to_the_constructor(change: dict[str, Any]) -> None:
    kind = AIMessage if change.keys() & {"usage_metadata", "tool_calls"} else HumanMessage
    make, usual = BareMaker(kind), kind("hi").model_dump()
    for _ in range(2):
        assert make(copy.deepcopy(usual)) is not None
        assert make({**usual, **change}) is None


def test_a_class_that_changes_its_fields_makes_its_messages_itself() -> None:
    class Loud(HumanMessage):
        calls: ClassVar[int] = 0

        @model_validator(mode="after")
        def _raise_voice(self) -> Loud:
            self.__dict__["content"] = str(self.content).upper()
            return self

    make = BareMaker(Loud)

    assert [make(HumanMessage("hi").model_dump()) for _ in range(2)] == [None, None]
