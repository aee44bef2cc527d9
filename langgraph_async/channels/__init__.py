"""How one state key holds its value and takes a superstep's writes."""

from langgraph_async.channels.any_value import AnyValue
from langgraph_async.channels.barrier import NamedBarrierValue, NamedBarrierValueAfterFinish
from langgraph_async.channels.base import BaseChannel
from langgraph_async.channels.delta import DeltaChannel
from langgraph_async.channels.ephemeral import EphemeralValue
from langgraph_async.channels.last_value import LastValue, LastValueAfterFinish
from langgraph_async.channels.reducer import BinaryOperatorAggregate
from langgraph_async.channels.topic import Topic
from langgraph_async.channels.untracked import UntrackedValue

__all__ = [
    "AnyValue",
    "BaseChannel",
    "BinaryOperatorAggregate",
    "DeltaChannel",
    "EphemeralValue",
    "LastValue",
    "LastValueAfterFinish",
    "NamedBarrierValue",
    "NamedBarrierValueAfterFinish",
    "Topic",
    "UntrackedValue",
]
