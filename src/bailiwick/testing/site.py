"""What a test puts inside another Python process: a module of ours that is installed before anything runs.

Nothing of it is in the product: Python imports `sitecustomize` when it starts, from wherever PYTHONPATH says.
"""

import os
from pathlib import Path


def installing(module: str, directory: Path) -> dict[str, str]:
    """The environment in which a process calls `bailiwick.testing.<module>.install()` as it starts.

    What this process is run from, that one is run from, too.
    """
    directory.mkdir(parents=True, exist_ok=True)
    site = f"from bailiwick.testing import {module}\n\n{module}.install()\n"
    (directory / "sitecustomize.py").write_text(site)
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(directory), os.environ.get("PYTHONPATH"))))}
