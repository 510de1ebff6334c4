"""What one may set about queries."""

from pydantic import BaseModel, ConfigDict, Field


class LimitsConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    sql_bytes_max: int = Field(
        default=1 << 20, ge=1024, le=64 << 20, description="Longest statement, in bytes of UTF-8."
    )
    result_rows_max: int = Field(
        default=0, ge=0, description="Most rows one result may have; 0 means no limit."
    )
    result_bytes_max: int = Field(
        default=2 << 30, ge=0, description="Most bytes one result may have; 0 means no limit."
    )
    result_columns_max: int = Field(
        default=2000, ge=1, le=100_000, description="Most columns one result may have."
    )
    timeout_s: float = Field(default=300.0, gt=0, description="Deadline of a query that names none.")
    timeout_max_s: float = Field(
        default=3600.0, gt=0, description="The longest deadline a client may ask for."
    )
    stream_idle_s: float = Field(
        default=30.0,
        gt=0,
        description="A running query whose engine shows no sign of life for this long is ended.",
    )
    history_days: float = Field(
        default=30.0, gt=0, description="How long ended queries stay in `system.runtime.queries`."
    )


class SessionsConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    idle_s: float = Field(
        default=3600.0, gt=0, description="A client's session that is not used for this long ends."
    )
    per_user_max: int = Field(
        default=1_000, ge=1, description="Most sessions of one user; the one idle for longest ends first."
    )
    total_max: int = Field(default=10_000, ge=1, description="Most sessions of all users together.")
