"""What one may set about the Spark Connect door."""

from pydantic import BaseModel, ConfigDict, Field


class SparkConnectConfig(BaseModel):
    """Sessions and streams of PySpark and other Spark Connect clients."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=True, description="Whether the gRPC port speaks Spark Connect, too.")
    user_code_roles: tuple[str, ...] = Field(
        default=(),
        max_length=64,
        description="Roles whose Python code runs, on engines of the class `trusted` "
        "(`fleet.trusted_token_file`) and nowhere else. It reaches whatever such an engine reaches, "
        "policies or not. Default: nobody's.",
    )
    idle_s: float = Field(
        default=3600.0, gt=0, description="A session that is not used for this long ends, with its views."
    )
    engine_idle_s: float = Field(
        default=600.0,
        gt=0,
        description="A session that is not used for this long is forgotten by its engine. The next call "
        "makes it again, there or on another one.",
    )
    sessions_per_user_max: int = Field(
        default=200, ge=1, le=10_000, description="Most sessions of one user that are remembered."
    )
    sessions_max: int = Field(
        default=2_000, ge=1, le=100_000, description="Most sessions of all users that are remembered."
    )
    engine_sessions_per_user_max: int = Field(
        default=64, ge=1, le=1_000, description="Most sessions of one user that engines hold at a time."
    )
    engine_sessions_max: int = Field(
        default=256, ge=1, le=10_000, description="Most sessions of all users that engines hold at a time."
    )
    operations_max: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Most operations of one session that run or wait to be read.",
    )
    brought_bytes_per_plan_max: int = Field(
        default=64 << 20,
        ge=1 << 20,
        le=112 << 20,
        description="Most bytes of rows (`createDataFrame`) that one plan may bring to an engine.",
    )
    brought_bytes_per_user_max: int = Field(
        default=512 << 20,
        ge=1 << 20,
        description="Most bytes of such rows that are kept on disk for one user's sessions. A session that "
        "brings more loses first what it has not used for longest.",
    )
    brought_bytes_max: int = Field(
        default=4 << 30, ge=1 << 20, description="Most bytes of such rows that are kept for all users."
    )
    window_total_bytes_max: int = Field(
        default=256 << 20,
        ge=1 << 20,
        description="What all operations together may hold in the gateway's memory until it is read.",
    )
    detach_s: float = Field(
        default=300.0,
        gt=0,
        description="An operation whose client stays away for this long is ended and forgotten.",
    )
    stream_s: float = Field(
        default=120.0, gt=0, description="After this long a stream ends, and its client takes it up again."
    )
    stream_bytes_max: int = Field(default=1 << 30, ge=1 << 20, description="The same after so many bytes.")
