"""What one may set about proving who one is."""

from pydantic import BaseModel, ConfigDict, Field


class IdentityConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    token_s: float = Field(
        default=3600.0,
        gt=0,
        le=86_400,
        description="Life of the signed token that a password is exchanged for.",
    )
    ticket_s: float = Field(default=300.0, gt=0, le=86_400, description="Life of a Flight ticket.")
    failure_delay_s: float = Field(
        default=0.5,
        ge=0,
        le=30,
        description="How long a wrong credential waits for its answer; doubles per failure up to 8 s.",
    )
    hashing_threads: int = Field(default=2, ge=1, le=16, description="Passwords hashed at the same time.")
    static_token_ttl_max_s: float = Field(
        default=366 * 86_400.0, gt=0, description="Longest life a static token may be given."
    )
