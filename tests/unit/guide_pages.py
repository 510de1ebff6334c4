"""What stands in the blocks of a guide, for the tests that run it."""

import re
from pathlib import Path

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (GUIDES / f"{page}.md").read_text(), re.DOTALL)
