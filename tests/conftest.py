"""What all tests share."""

import os

from hypothesis import settings

# A slow machine is no fault of the code; and a gate that is asked the same thing twice gives the same answer.
settings.register_profile("local", deadline=None)
settings.register_profile("gate", deadline=None, derandomize=True)
settings.load_profile("gate" if os.environ.get("CI") else "local")
