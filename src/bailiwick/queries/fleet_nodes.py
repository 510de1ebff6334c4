"""An engine of another process, as `system.runtime.nodes` shows it.

Put together from what its keeper reported, what the registry holds of it, and what this gateway runs there.
Never its address, and none of its secrets.
"""

from bailiwick.fleet.members import Member
from bailiwick.fleet.memory import Watermarks, utilisation
from bailiwick.fleet.registry import NodeStatus
from bailiwick.queries.system_tables import Node

REMOTE = "remote"


def remote_node(status: NodeStatus, member: Member | None, watermarks: Watermarks) -> Node:
    """`member` is the same engine in this gateway's pool; None while it is not there."""
    report = status.report
    utilization = utilisation(report.memory)
    return Node(
        report.node_id,
        kind=REMOTE,
        state=report.state.value,
        master=report.master,
        version=report.version,
        cores=report.cores,
        sessions=0 if member is None else member.stock.idle_count + len(member.costs),
        running=0 if member is None else len(member.costs),
        restarts=max(0, status.lives - 1),
        engine_class=report.engine_class,
        health=status.condition.value,
        why=status.why or None,
        watermark=watermarks.of(utilization).value,
        memory_utilization=utilization,
        active=report.active_operations,
        heartbeat_age_s=status.unheard_s,
    )
