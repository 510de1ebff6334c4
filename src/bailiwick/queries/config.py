"""What one may set about queries."""

import json
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from bailiwick.fleet.placement import Placement

ROLES_MAX: Final = 1_000


class RoleLimits(BaseModel):
    """What holds for principals with one role, instead of the settings of the same name for everybody.

    Of several roles of one principal that say something, the most generous holds for times, and the strictest
    for the placement. Roles that say nothing have no say.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    timeout_s: float | None = Field(default=None, gt=0, description="Deadline of a query that names none.")
    timeout_max_s: float | None = Field(
        default=None, gt=0, description="The longest deadline that may be asked for."
    )
    placement: Placement | None = Field(
        default=None, description="Where a query may run that does not say so itself."
    )


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
        default=3600.0, gt=0, description="The longest deadline a client may ask for; longer ones are cut."
    )
    roles: dict[str, RoleLimits] = Field(
        default={},
        max_length=ROLES_MAX,
        description="Other deadlines and placements by role, as `[limits.roles.NAME]`.",
    )
    stream_idle_s: float = Field(
        default=30.0,
        gt=0,
        description="A running query whose engine shows no sign of life for this long is ended.",
    )
    retries: int = Field(
        default=2,
        ge=0,
        le=5,
        description="How often a read whose engine was lost is tried on another one, before its first row.",
    )
    history_days: float = Field(
        default=30.0, gt=0, description="How long ended queries stay in `system.runtime.queries`."
    )
    idempotency_s: float = Field(
        default=86_400.0,
        gt=0,
        description="How long a client's idempotency key, and how its statement ended, are remembered.",
    )
    idempotency_keys_max: int = Field(
        default=10_000, ge=1, le=1_000_000, description="Most idempotency keys remembered of one user."
    )

    @field_validator("roles", mode="before")
    @classmethod
    def _from_text(cls, given: Any) -> Any:
        """In the environment, a table is written as JSON."""
        if not isinstance(given, str):
            return given
        try:
            return json.loads(given or "{}")
        except ValueError:
            raise ValueError('a table by role is given as JSON: {"analyst": {"timeout_s": 60}}') from None

    @model_validator(mode="after")
    def _roles_agree(self) -> Self:
        for name, role in self.roles.items():
            longest_s = role.timeout_max_s or self.timeout_max_s
            if (role.timeout_s or 0.0) > longest_s:
                raise ValueError(
                    f"limits.roles.{name}.timeout_s must not be above its timeout_max_s, {longest_s:g}"
                )
        longest_s = max(self.timeout_max_s, *(role.timeout_max_s or 0.0 for role in self.roles.values()), 0.0)
        if self.idempotency_s < longest_s:
            raise ValueError(
                "limits.idempotency_s must not be below the longest timeout_max_s: keys outlive their queries"
            )
        return self


class SessionsConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    idle_s: float = Field(
        default=3600.0, gt=0, description="A client's session that is not used for this long ends."
    )
    per_user_max: int = Field(
        default=1_000, ge=1, description="Most sessions of one user; the one idle for longest ends first."
    )
    total_max: int = Field(default=10_000, ge=1, description="Most sessions of all users together.")
