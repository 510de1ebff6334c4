"""Lets these tests use the query service's house, which is one folder up."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
