"""What one may set about the embedded engine and its sessions."""

from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

HEAP_BYTES_MIN: Final = 450 << 20
"""Half as much again as Spark sets aside for itself: with less it refuses to start."""

_UNITS: Final = {"m": 1 << 20, "g": 1 << 30}


def size_bytes(memory: str) -> int:
    """
    >>> size_bytes("2g") == 2 * 1024**3
    True
    """
    return int(memory[:-1]) * _UNITS[memory[-1]]


class EngineConfig(BaseModel):
    """The Spark that the gateway starts for itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    master: str = Field(
        default="local[*]",
        description="Any Spark master: `local[*]`, `spark://host:7077`, `yarn`, `k8s://…`.",
    )
    memory: str | None = Field(
        default=None,
        pattern=r"^[0-9]+[mg]$",
        description="Heap of the engine, such as `2g`; Spark takes no less than `450m`. Default: 8 GB, at "
        "most half of the machine's memory.",
    )
    spill_dir: Path | None = Field(
        default=None, description="Where Spark spills and shuffles. Default: `spill/` in the data directory."
    )
    broadcast_threshold_bytes: int = Field(
        default=10 * 1024 * 1024,
        ge=-1,
        le=1 << 30,
        description="Tables up to this size are broadcast in joins; -1 never.",
    )
    output_partition_bytes: int = Field(
        default=8 * 1024 * 1024,
        ge=1 << 20,
        le=128 << 20,
        description="Target size of one partition of a result. Small ones let results beyond the heap pass.",
    )
    java_home: Path | None = Field(
        default=None, description="The Java (17 or 21) to use instead of the one found."
    )
    start_timeout_s: float = Field(
        default=120.0, gt=0, le=600, description="How long an engine may take to come up."
    )
    restart_backoff_s: float = Field(
        default=0.5,
        ge=0,
        le=60,
        description="First pause before a dead engine is started again; doubles up to 30 s.",
    )
    stop_grace_s: float = Field(
        default=5.0, ge=0, le=60, description="How long a stopping engine gets before it is killed."
    )
    class_data_sharing: bool = Field(
        default=True, description="Keep an AppCDS archive so that later starts are quicker."
    )
    quick_compile: bool = Field(
        default=False,
        description="Let Java compile less thoroughly: for engines that live for minutes only.",
    )

    @field_validator("memory")
    @classmethod
    def _check_memory(cls, memory: str | None) -> str | None:
        if memory is not None and size_bytes(memory) < HEAP_BYTES_MIN:
            raise ValueError(f"Spark does not start with a heap of less than {HEAP_BYTES_MIN >> 20}m")
        return memory


class PoolConfig(BaseModel):
    """Warm sessions and the queue before them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sessions: int | None = Field(
        default=None, ge=1, le=64, description="Queries that run at once. Default: the engine's cores."
    )
    long_running_max: int = Field(
        default=4, ge=0, le=64, description="Long queries that may run besides the short ones."
    )
    interactive_s: float = Field(
        default=10.0, gt=0, le=3600, description="After this a query counts as long."
    )
    queue_length_max: int = Field(default=500, ge=1, le=10_000, description="Queries that may wait, in all.")
    queue_length_per_user_max: int = Field(
        default=100, ge=1, le=10_000, description="Queries of one user that may wait."
    )
    queue_length_per_tenant_max: int = Field(
        default=400, ge=1, le=10_000, description="Queries of one tenant that may wait."
    )
    running_per_tenant_max: int | None = Field(
        default=None,
        ge=1,
        le=128,
        description="Queries of one tenant that may run at once, long ones included. Default: no such bound; "
        "tenants take turns in any case.",
    )
    queue_wait_s: float = Field(
        default=60.0, gt=0, le=3600, description="How long a query may wait before it is refused."
    )
    reachable_wait_s: float = Field(
        default=5.0,
        ge=0,
        le=600,
        description="How long a query that may not run on the gateway's own engine waits for another one.",
    )
    session_age_max_s: float = Field(
        default=3600.0, gt=0, description="A session older than this is replaced."
    )
    session_queries_max: int = Field(
        default=2000, ge=1, description="A session that served this many queries is replaced."
    )
    cancel_confirm_s: float = Field(
        default=5.0,
        gt=0,
        le=60,
        description="How long Spark gets to confirm a cancel before its session is thrown away.",
    )
