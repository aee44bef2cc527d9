"""Makes `lazy_schemas`, a module with string annotations, importable from the tests beside it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
