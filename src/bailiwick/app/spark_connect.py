"""The Spark Connect door, on the sessions and queries that are there."""

from contextlib import AsyncExitStack

from bailiwick.config import Config
from bailiwick.doors.spark_connect.door import SparkConnectDoor
from bailiwick.doors.spark_connect.responses import LogLimits, SharedMemory
from bailiwick.doors.spark_connect.service import SparkConnectService
from bailiwick.doors.spark_connect.sessions import DOOR, Sessions
from bailiwick.doors.spark_connect.shared_session import SharedSession
from bailiwick.fleet.dedicated import DedicatedSessions
from bailiwick.fleet.schedule import Work
from bailiwick.identity.authenticator import Authenticator
from bailiwick.identity.principal import Principal
from bailiwick.queries.client_sessions import ClientSessions
from bailiwick.queries.service import QueryService
from bailiwick.queries.statement import Statement


def open_spark_connect(
    stack: AsyncExitStack,
    config: Config,
    authenticator: Authenticator,
    queries: QueryService,
    dedicated: DedicatedSessions,
    shown: ClientSessions,
) -> SparkConnectService:
    results = config.results

    def work_for(principal: Principal) -> Work:
        return queries.side.work_of(Statement("", principal, DOOR), ())

    door = SparkConnectDoor(
        queries,
        Sessions(
            dedicated,
            SharedSession(queries.side.pool.lease),
            shown,
            queries.spool,
            config.spark_connect,
            work_for=work_for,
        ),
        queries.spool,
        config.spark_connect,
        LogLimits(
            results.window_bytes,
            results.spool_bytes_max,
            SharedMemory(config.spark_connect.window_total_bytes_max),
        ),
    )
    door.start()
    stack.push_async_callback(door.close)
    return SparkConnectService(door, authenticator)
