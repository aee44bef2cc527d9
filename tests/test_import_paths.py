"""Names stand where LangGraph has them, so that porting a program is renaming the package in its imports."""

from __future__ import annotations

import importlib

import pytest

PATHS = {
    "cache.base": "BaseCache FullKey Namespace",
    "cache.memory": "InMemoryCache",
    "cache.redis": "RedisCache",
    "cache.sqlite": "SqliteCache",
    "channels": """
        AnyValue BaseChannel BinaryOperatorAggregate DeltaChannel EphemeralValue LastValue LastValueAfterFinish
        NamedBarrierValue NamedBarrierValueAfterFinish Topic UntrackedValue""",
    "channels.any_value": "AnyValue",
    "channels.base": "BaseChannel",
    "channels.last_value": "LastValue LastValueAfterFinish",
    "channels.topic": "Topic",
    "checkpoint.base": """
        BaseCheckpointSaver ChannelVersions Checkpoint CheckpointMetadata CheckpointTuple DeltaChannelHistory
        EXCLUDED_METADATA_KEYS JsonPlusSerializer LATEST_VERSION PendingWrite SerializerProtocol WRITES_IDX_MAP
        copy_checkpoint create_checkpoint empty_checkpoint get_checkpoint_id get_checkpoint_metadata
        get_serializable_checkpoint_metadata""",
    "checkpoint.memory": "InMemorySaver MemorySaver",
    "checkpoint.serde.base": "CipherProtocol SerializerProtocol",
    "checkpoint.serde.encrypted": "EncryptedSerializer",
    "checkpoint.serde.jsonplus": "JsonPlusSerializer",
    "config": "RunnableConfig get_config get_store get_stream_writer",
    "constants": "CONF CONFIG_KEY_CHECKPOINTER END START TAG_HIDDEN TAG_NOSTREAM TASKS",
    "errors": """
        EmptyChannelError EmptyInputError ErrorCode GraphBubbleUp GraphDrained GraphInterrupt GraphRecursionError
        InvalidUpdateError NodeCancelledError NodeError NodeInterrupt NodeTimeoutError ParentCommand TaskNotFound
        UnknownInterruptError create_error_message is_invalid_resume""",
    "func": "entrypoint task",
    "graph": "END MessageGraph MessagesState START StateGraph add_messages",
    "graph.message": "MessageGraph Messages MessagesState REMOVE_ALL_MESSAGES add_messages push_message",
    "graph.ui": "AnyUIMessage RemoveUIMessage UIMessage delete_ui_message push_ui_message ui_message_reducer",
    "graph.state": "CompiledStateGraph StateGraph",
    "managed": "IsLastStep RemainingSteps",
    "pregel": "NodeBuilder Pregel",
    "runtime": "BaseUser ExecutionInfo RunControl Runtime ServerInfo get_runtime",
    "types": """
        All CachePolicy CheckpointPayload CheckpointStreamPart CheckpointTask Checkpointer Command CustomStreamPart
        DebugPayload DebugStreamPart Durability GraphOutput Interrupt MessagesStreamPart Overwrite PregelTask
        RetryPolicy Send StateSnapshot StateUpdate StreamMode StreamPart StreamWriter TaskPayload TaskResultPayload
        TasksStreamPart TimeoutPolicy TracePolicy UpdatesStreamPart ValuesStreamPart ensure_valid_checkpointer
        interrupt omit_payload""",
    "typing": "ContextT InputT OutputT StateT",
    "warnings": """
        LangGraphDeprecatedSinceV05 LangGraphDeprecatedSinceV10 LangGraphDeprecatedSinceV11
        LangGraphDeprecationWarning""",
}
NAMES = [(module, name) for module, names in PATHS.items() for name in names.split()]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_name_can_be_imported_from_where_langgraph_has_it(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(f"langgraph_async.{module}"), name)


@pytest.mark.parametrize("module", PATHS)
def test_a_module_that_lists_its_names_lists_these(module: str) -> None:
    listed = getattr(importlib.import_module(f"langgraph_async.{module}"), "__all__", None)

    assert listed is None or set(PATHS[module].split()) <= set(listed)


def test_the_same_object_stands_at_every_path() -> None:
    from langgraph_async import config, graph, runtime
    from langgraph_async.graph import message, messages, state

    assert graph.StateGraph is state.StateGraph
    assert graph.add_messages is message.add_messages is messages.add_messages
    assert (config.get_store, config.get_stream_writer) == (runtime.get_store, runtime.get_stream_writer)
