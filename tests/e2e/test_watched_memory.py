"""How full the gateway's own engine and the gateway itself are, as people and machines see it."""

import re
from urllib.request import urlopen

import pytest

from bailiwick.testing.asking import rows, wait_until
from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

MEMORY = (
    "SELECT watermark, memory_utilization, active, queue_s FROM system.runtime.nodes WHERE kind = 'embedded'"
)


def test_the_own_engine_shows_its_memory_its_work_and_its_queue(gateway: RunningGateway) -> None:
    rows(gateway, "SELECT count(*) FROM range(10)")
    ((watermark, used, active, waited_s),) = rows(gateway, MEMORY)
    assert watermark in ("green", "yellow", "orange")
    assert 0 < used < 1
    assert active >= 0
    assert waited_s >= 0


def test_metrics_tell_the_memory_of_the_engine_and_of_the_gateway(gateway: RunningGateway) -> None:
    def told() -> dict[str, float]:
        with urlopen(f"http://{gateway.http_address}/metrics") as answer:
            text = answer.read().decode()
        found = re.findall(r'^bailiwick_memory_utilization_ratio\{node="(\w+)"\} (\S+)$', text, re.MULTILINE)
        return {node: float(ratio) for node, ratio in found}

    wait_until("both are told", lambda: {"embedded", "gateway"} <= told().keys())
    assert all(0 < ratio < 1 for ratio in told().values())
