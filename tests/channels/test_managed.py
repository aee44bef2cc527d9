from __future__ import annotations

from dataclasses import dataclass

import pytest

from langgraph_async.channels.managed import IsLastStepManager, ManagedValue, RemainingStepsManager, is_managed_value
from langgraph_async.managed import IsLastStep, RemainingSteps


@dataclass
class Pad:
    remaining_steps: int


@pytest.mark.parametrize(("left", "last"), [(3, False), (2, False), (1, True)])
def test_they_count_the_steps_left_with_the_current_one(left: int, last: bool) -> None:
    assert RemainingStepsManager.get(Pad(left)) == left
    assert IsLastStepManager.get(Pad(left)) is last


def test_the_public_names_are_annotations() -> None:
    assert IsLastStep.__metadata__ == (IsLastStepManager,)
    assert RemainingSteps.__metadata__ == (RemainingStepsManager,)


def test_only_managed_classes_are_managed() -> None:
    assert is_managed_value(IsLastStepManager)
    assert is_managed_value(ManagedValue)
    assert not is_managed_value(int)
    assert not is_managed_value("x")
