"""Managed values, under the name users import them from."""

from langgraph_async.channels.managed import IsLastStep, ManagedValue, RemainingSteps

__all__ = ["IsLastStep", "ManagedValue", "RemainingSteps"]
