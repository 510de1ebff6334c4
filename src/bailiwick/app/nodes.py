"""The engines as `system.runtime.nodes` shows them."""

from bailiwick import __version__
from bailiwick.app.fleet import Spark, memory_limits, own_cores
from bailiwick.config import Config
from bailiwick.engines.embedded import EmbeddedEngine
from bailiwick.fleet.measures import measured
from bailiwick.fleet.memory import utilisation
from bailiwick.fleet.registry import NodeStatus
from bailiwick.fleet.sessions import SessionPool
from bailiwick.ids import NodeId
from bailiwick.queries.system_tables import Node


def nodes(config: Config, spark: Spark) -> list[Node]:
    """The gateway's own engine first, then those that joined, also the ones that are not used now."""
    own = [] if spark.engine is None else [_own(config, spark.engine, spark.pool)]
    return own + [_joined(config, status, spark.pool) for status in spark.registry.nodes()]


def _own(config: Config, engine: EmbeddedEngine, pool: SessionPool) -> Node:
    seen = measured(engine.process, memory_limits(config).engine_bytes)
    used = utilisation(seen.memory)
    return Node(
        engine.node_id,
        kind="embedded",
        state="ready" if engine.is_ready else "starting",
        master=config.engine.master,
        version=__version__,
        cores=own_cores(config),
        memory_bytes=engine.memory_bytes,
        sessions=_sessions(pool, engine.node_id),
        running=pool.roster.running_on(engine.node_id),
        started_at=engine.started_at,
        restarts=engine.restarts,
        health="healthy" if engine.is_ready else "unproven",
        watermark=config.fleet.watermarks.of(used).value,
        memory_utilization=used,
        active=seen.active_operations,
        queue_s=_waited_s(pool, engine.node_id),
    )


def _joined(config: Config, status: NodeStatus, pool: SessionPool) -> Node:
    report = status.report
    used = utilisation(report.memory)
    return Node(
        report.node_id,
        kind="joined",
        state=report.state.value,
        master=report.master,
        version=report.version,
        cores=report.cores,
        memory_bytes=report.heap_bytes,
        sessions=_sessions(pool, report.node_id),
        running=pool.roster.running_on(report.node_id),
        restarts=max(0, status.lives - 1),
        engine_class=report.engine_class,
        health=status.condition.value,
        why=status.why or None,
        watermark=config.fleet.watermarks.of(used).value,
        memory_utilization=used,
        active=report.active_operations,
        queue_s=_waited_s(pool, report.node_id),
        heartbeat_age_s=status.unheard_s,
    )


def _sessions(pool: SessionPool, node_id: NodeId) -> int:
    return sum(
        member.stock.idle_count + len(member.costs) for member in pool.roster if member.node_id == node_id
    )


def _waited_s(pool: SessionPool, node_id: NodeId) -> float | None:
    return next((member.waited_s for member in pool.roster if member.node_id == node_id), None)
