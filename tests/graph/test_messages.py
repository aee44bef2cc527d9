"""Merging messages by id, as dicts and as langchain-core objects."""

import copy
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.messages import RemoveMessage as LangchainRemove

from langgraph_async.channels.reducer import BinaryOperatorAggregate
from langgraph_async.constants import REMOVE_ALL_MESSAGES
from langgraph_async.graph import MessageGraph, MessagesState, StateGraph, add_messages
from langgraph_async.graph.messages import RemoveMessage, messages_delta_reducer


def user(content, id=None):
    return {"role": "user", "content": content, **({} if id is None else {"id": id})}


def test_dicts_stay_dicts_and_get_ids():
    merged = add_messages([user("a", "1")], user("b"))

    assert merged[0] == user("a", "1")
    assert merged[1]["content"] == "b"
    assert len(merged[1]["id"]) == 36


def test_known_ids_replace_in_place_and_new_ones_are_appended():
    merged = add_messages([user("a", "1"), user("b", "2")], [user("A", "1"), user("c", "3"), user("C", "3")])

    assert merged == [user("A", "1"), user("b", "2"), user("C", "3")]


def test_nothing_that_was_passed_in_is_changed():
    left, right = [user("a")], [user("b"), HumanMessage("c")]
    before = copy.deepcopy((left, right))

    merged = add_messages(left, right)

    assert (left, right) == before
    assert merged is not left
    assert all(message.id for message in merged)


@pytest.mark.parametrize("remove", [RemoveMessage, LangchainRemove])
def test_a_removal_takes_a_message_out_unless_it_comes_back(remove):
    left = [user("a", "1"), user("b", "2")]

    assert add_messages(left, remove(id="1")) == [user("b", "2")]
    assert add_messages(left, [remove(id="1"), user("A", "1")]) == [user("A", "1"), user("b", "2")]
    with pytest.raises(ValueError, match=r"delete a message with an ID that doesn't exist \('9'\)"):
        add_messages(left, [remove(id="9")])


@pytest.mark.parametrize("remove", [RemoveMessage, LangchainRemove])
def test_removing_all_keeps_what_comes_after_the_last_such_removal(remove):
    everything = remove(id=REMOVE_ALL_MESSAGES)

    merged = add_messages([user("a", "1")], [user("b", "2"), everything, user("c", "3"), everything, user("d", "4")])

    assert merged == [user("d", "4")]
    assert add_messages([user("a", "1")], [everything]) == []


def test_dicts_become_objects_where_they_meet_objects():
    merged = add_messages([user("a", "1")], [AIMessage("b", id="2")])

    assert merged == [HumanMessage("a", id="1"), AIMessage("b", id="2")]


def test_chunks_become_messages():
    assert add_messages([], [AIMessageChunk("b", id="2")]) == [AIMessage("b", id="2")]


def test_shorthands_become_what_the_process_works_with():
    hello, answer = add_messages("hello", ("ai", "yes"))

    assert isinstance(hello, HumanMessage)
    assert isinstance(answer, AIMessage)


def test_without_langchain_shorthands_become_dicts_and_it_is_not_loaded():
    code = (
        "import sys; from langgraph_async.graph import add_messages\n"
        "a, b = add_messages('hello', [('ai', 'yes')])\n"
        "assert (a['role'], a['content'], b['role'], b['content']) == ('user', 'hello', 'assistant', 'yes')\n"
        "assert not {'langchain_core', 'pydantic', 'msgspec'} & set(sys.modules)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_one_missing_side_is_refused_by_name():
    with pytest.raises(ValueError, match="right is None"):
        add_messages(left=[])
    with pytest.raises(ValueError, match="left is None"):
        add_messages(right=[])


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match="Unrecognized format='x'"):
        add_messages([], [], format="x")


def test_with_a_format_alone_it_is_a_reducer():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}

    (message,) = add_messages(format="langchain-openai")([], [HumanMessage([image], id="1")])

    assert message.content[0]["type"] == "image_url"
    assert message.id == "1"


@pytest.mark.parametrize("odd", [3, ("a", "b", "c"), object()])
def test_something_else_is_no_message(odd):
    with pytest.raises(ValueError, match="Expected a message"):
        add_messages([user("a")], odd)


_batches = st.lists(
    st.lists(
        st.one_of(
            st.builds(user, st.text(max_size=3), st.sampled_from("123")),
            st.builds(RemoveMessage, st.sampled_from(["1", "2", REMOVE_ALL_MESSAGES])),
        )
    ),
    max_size=4,
)


@given(_batches, _batches)
def test_the_batch_reducer_gives_the_same_for_a_split_batch(first, second):
    whole = messages_delta_reducer([], [*first, *second])

    assert messages_delta_reducer(messages_delta_reducer([], first), second) == whole


def test_messages_state_reduces_with_add_messages():
    assert StateGraph(MessagesState).channels["messages"].operator is add_messages


def test_message_graph_is_deprecated_and_has_a_root_state():
    with pytest.warns(DeprecationWarning, match="MessageGraph is deprecated"):
        graph = MessageGraph()

    assert list(graph.channels) == ["__root__"]


# -- stored as what was appended ------------------------------------------------------------------------------

_ident = st.sampled_from("abcd")


def _id_of(message: object) -> object:
    return message["id"] if isinstance(message, dict) else message.id


_dict_message = st.builds(
    lambda ident, text: {"role": "user", "content": text, "id": ident}, _ident, st.text(max_size=2)
)
_object_message = st.builds(lambda ident, text: HumanMessage(text, id=ident), _ident, st.text(max_size=2))
_removal = st.builds(RemoveMessage, _ident)


@given(st.data())
def test_replaying_stored_writes_gives_what_adding_one_after_the_other_gave(data: st.DataObject) -> None:
    kinds = [*data.draw(st.sampled_from([[_dict_message], [_object_message], [_dict_message, _object_message]]))]
    first = data.draw(st.lists(st.one_of(kinds), max_size=4, unique_by=_id_of))
    value, writes = add_messages([], first), []
    for _ in range(data.draw(st.integers(1, 5))):
        write = data.draw(st.lists(st.one_of(*kinds, _removal), max_size=3))
        try:
            value = add_messages(value, write)
        except ValueError:  # removes what is not there
            continue
        writes.append(("task", "messages", write))
    channel = BinaryOperatorAggregate(list, add_messages).from_checkpoint(add_messages([], first))
    if writes:
        channel.replay_writes(writes)

    assert channel.get() == value
