import pytest

pytest.register_assert_rewrite("langgraph_async.testing.saver_contract")
