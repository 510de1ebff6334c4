"""Reports of engines as keepers would send them, for tests that need one."""

from dataclasses import replace
from typing import Any

from bailiwick.fleet.acceptance import Versions
from bailiwick.fleet.memory import MemoryUse
from bailiwick.fleet.report import EngineState, Report
from bailiwick.ids import NodeId
from bailiwick.secrets import Secret

OURS = Versions("0.1.0", "4.1.4")

_PORTS: dict[str, int] = {}


def report(node_id: str = "a", life: int = 1, **changes: Any) -> Report:
    """Of a healthy engine. Each name has a port of its own, and each life its own secrets."""
    port = 20_000 + _PORTS.setdefault(node_id, len(_PORTS))
    name = f"{node_id}-life-{life:03}"
    made = Report(
        node_id=NodeId(node_id),
        life=name,
        address=f"10.0.0.1:{port}",
        version=OURS.bailiwick,
        spark_version=OURS.spark,
        master="local[2]",
        cores=2,
        heap_bytes=1 << 30,
        state=EngineState.READY,
        memory=MemoryUse(0.1, None, 0.2),
        active_operations=0,
        engine_token=Secret(f"token-of-{name}-0123456789"),
        catalog_credential=Secret(f"credential-of-{name}-0123456789"),
        stamp_key=Secret(f"stamp-key-of-{name}-0123456789"),
    )
    return replace(made, **changes)
