"""Keepers and engines without Spark: reports made by hand, and a way to engines that the test breaks."""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bailiwick.engines.engine import EngineLost, EngineSession
from bailiwick.fleet.acceptance import Versions
from bailiwick.fleet.link import PLAIN, EngineChannel
from bailiwick.fleet.memory import MemoryUse
from bailiwick.fleet.report import EngineState, Report
from bailiwick.fleet.vitals import HealthRules
from bailiwick.ids import NodeId
from bailiwick.policy.stamp import StampKey
from bailiwick.secrets import Secret, new_secret
from bailiwick.testing.engines import ScriptedEngine

VERSIONS = Versions("1.2.3", "4.1.4")
RULES = HealthRules(VERSIONS)


def report_of(name: str = "a", *, state: EngineState = EngineState.READY, **more: Any) -> Report:
    """What a keeper on this machine would send first."""
    told: dict[str, Any] = {
        "node_id": NodeId(name),
        "life": secrets.token_hex(8),
        "address": f"127.0.0.1:{7000 + sum(name.encode()) % 1000}",
        "version": VERSIONS.bailiwick,
        "spark_version": VERSIONS.spark,
        "master": "local[2]",
        "cores": 2,
        "heap_bytes": 1 << 30,
        "state": state,
        "memory": MemoryUse(),
        "active_operations": 0,
        "engine_token": new_secret(),
        "catalog_credential": new_secret(),
        "stamp_key": Secret(StampKey.new().text),
    }
    return Report(**(told | more))


def restarted(report: Report, **more: Any) -> Report:
    """The same engine in its next life: with new secrets."""
    fresh = report_of(report.node_id)
    changed = {
        name: getattr(fresh, name) for name in ("life", "engine_token", "catalog_credential", "stamp_key")
    }
    return replace(report, **(changed | more))


class ScriptedChannel:
    """The way to one life of a scripted engine."""

    def __init__(self, address: str, token: str) -> None:
        self.address = address
        self.token = token
        self.engine = ScriptedEngine()
        self.handles: list[str] = []
        self.pings = 0
        self.is_closed = False

    async def open_session(self, handle: str, conf: Mapping[str, str]) -> EngineSession:
        assert handle in conf.values()  # noqa: S101 - a promise of whoever calls
        self.handles.append(handle)
        session = await self.engine.open_session()
        session.handle = handle
        return session

    async def ping(self, timeout_s: float) -> None:
        self.pings += 1
        if not self.engine.is_ready:
            await asyncio.sleep(0)
            raise EngineLost(f"no answer within {timeout_s:g} s")

    async def close(self) -> None:
        self.is_closed = True


@dataclass
class ScriptedLink:
    """Leads to scripted engines; `channels` are all that were opened, by address, the newest."""

    kind: str = PLAIN
    channels: dict[str, ScriptedChannel] = field(default_factory=dict)
    looks: int = 0

    def open(self, address: str, token: str) -> EngineChannel:
        self.channels[address] = ScriptedChannel(address, token)
        return self.channels[address]

    def look(self) -> None:
        self.looks += 1
