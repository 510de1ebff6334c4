"""Where an engine stands, beyond its own machine: its cluster, and what must hold on a network.

Values and checks. `launch.py` makes Spark's properties of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bailiwick.errors import CannotStartError

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where an engine stands: what other machines must know to work with it."""

    driver_host: str = LOOPBACK
    """By which executors reach the driver. Anything but loopback means secrets and encryption among them."""
    trust_store: Path | None = None
    """Whose certificates Java believes, when the catalog is on another machine."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Properties of whoever runs the cluster."""


ALONE = Surroundings()
"""An engine of this machine, whose executors are here too."""

_MORE_ALLOWED: Final = (
    "spark.executor.",
    "spark.cores.max",
    "spark.dynamicAllocation.",
    "spark.shuffle.service.",
    "spark.kubernetes.",
    "spark.yarn.",
    "spark.authenticate",
    "spark.network.",
    "spark.ssl.",
    "spark.io.encryption.",
    "spark.hadoop.fs.",
    "spark.task.",
    "spark.speculation",
    "spark.deploy.",
    "spark.driver.port",
    "spark.driver.blockManager.port",
    "spark.blockManager.port",
)
"""What the cluster's own properties may be about: where executors run, never what queries may do."""


def check_more(master: str, surroundings: Surroundings) -> None:
    """Raises CannotStartError for properties that are not about the cluster, or not safe on a network."""
    more = surroundings.more
    strange = sorted(key for key in more if not key.startswith(_MORE_ALLOWED))
    if strange:
        raise CannotStartError(
            "these properties are not about executors and where they run, and cannot be set: "
            + ", ".join(strange)
        )
    if surroundings.driver_host == LOOPBACK:
        return
    for key in network_safety():
        if more.get(key, "true") != "true":
            raise CannotStartError(f"{key} must be true where executors are on other machines")
    if master.startswith("spark://") and "spark.authenticate.secret" not in more:
        raise CannotStartError(
            "a standalone cluster on other machines needs a secret that its workers know too: give "
            "spark.authenticate.secret in the file of properties"
        )


def network_safety() -> dict[str, str]:
    return {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
