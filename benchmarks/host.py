"""The gateway under measurement, in a process of its own as when it serves, with a desk that lends leases.

The stock client needs a lease to be let in by the catalog, and only the gateway's own pool gives one. One
line in, one line of JSON out: `lease` takes one, `release` gives it back, the end of input ends the gateway.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop

from bailiwick.app import open_gateway
from bailiwick.config import load
from bailiwick.identity.principal import ADMIN, Principal
from bailiwick.telemetry import logs

OVERRIDES: Mapping[str, Mapping[str, Any]] = {
    "server": {"grpc_port": 0, "http_port": 0},
    # A lease that stock clients hold for long must not make the pool warm up another session meanwhile.
    "pool": {"interactive_s": 3600.0},
}


async def main(data_dir: Path) -> None:
    settings = load(None, overrides=OVERRIDES)
    logs.configure(settings.logging)
    async with open_gateway(settings, data_dir) as gateway:
        password = await asyncio.to_thread((data_dir / "admin-password").read_text)
        say({"grpc": gateway.grpc_address, "password": password.strip()})
        async with AsyncExitStack() as held:
            while line := await asyncio.to_thread(sys.stdin.readline):
                match line.strip():
                    case "lease":
                        lease = await held.enter_async_context(
                            gateway.spark.pool.lease(Principal("admin", frozenset({ADMIN})))
                        )
                        say({"handle": lease.session.handle, "lease": lease.id})
                    case "release":
                        await held.aclose()
                        say({})
                    case other:
                        raise ValueError(f"no such command: {other}")


def say(answer: dict[str, str]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))
