"""What one may set about logs."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class LoggingConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe level that is written."
    )
    format: Literal["console", "json"] = Field(
        default="console", description="`console` for people, `json` for machines."
    )
    breadcrumbs: bool = Field(default=False, description="Log each step of each query (the debug switch).")
