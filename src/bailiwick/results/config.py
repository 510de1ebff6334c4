"""What one may set about results on their way to a client."""

from pydantic import BaseModel, ConfigDict, Field


class ResultsConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    window_bytes: int = Field(
        default=16 << 20,
        ge=1 << 20,
        le=1 << 30,
        description="What one result may hold in the gateway's memory.",
    )
    spool_bytes_max: int = Field(
        default=8 << 30, ge=0, description="What one result may hold on disk beyond its window."
    )
    spool_total_bytes_max: int = Field(
        default=32 << 30, ge=0, description="What all results together may hold on disk."
    )
    reader_idle_s: float = Field(
        default=300.0, gt=0, description="A client that takes nothing for this long is ended."
    )
    message_bytes_max: int = Field(
        default=16 << 20,
        ge=1 << 20,
        le=1 << 30,
        description="The largest single message sent to a client: one row must fit.",
    )
