"""What one may set about engines that keepers bring, and about where queries run."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bailiwick.fleet.memory import Watermarks
from bailiwick.fleet.placement import Placement


class FleetConfig(BaseModel):
    """Engines besides the gateway's own, each with its keeper (`bailiwick engine`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    token_file: Path | None = Field(
        default=None,
        description="Service tokens, one a line, that keepers show; read anew when it changes. Without one "
        "no engine can join, but those of `trusted_token_file`.",
    )
    trusted_token_file: Path | None = Field(
        default=None,
        description="Service tokens of keepers whose engines run code of users (class `trusted`); they are "
        "good for nothing else. Without one no such engine can join.",
    )
    placement: Placement | None = Field(
        default=None,
        description="Where queries run that do not say it: `require` on engines that joined, `prefer` them, "
        "or `local` on the gateway's own. Default: `require` with a token file, else `local`.",
    )
    embedded: bool = Field(
        default=True, description="Whether the gateway starts an engine of its own besides."
    )
    certificate_file: Path | None = Field(
        default=None, description="PEM: what the gateway shows to keepers and to engines of other machines."
    )
    key_file: Path | None = Field(default=None, description="PEM: the certificate's private key.")
    authority_file: Path | None = Field(
        default=None, description="PEM: the authorities whose certificates of keepers are believed."
    )
    catalog_bind: str | None = Field(
        default=None,
        description="HOST:PORT where engines of other machines reach the catalog, by HTTPS. Default: they "
        "cannot.",
    )
    catalog_uri: str | None = Field(
        default=None,
        pattern=r"^https://[^\s]+$",
        description="The URI by which they find it, if it is not https:// and `catalog_bind`.",
    )
    heartbeat_s: float = Field(
        default=5.0, ge=0.1, le=60, description="How often keepers tell of their engines."
    )
    heartbeats_missed_max: int = Field(
        default=3, ge=1, le=20, description="So many missing ones in a row and an engine is not used."
    )
    yellow_ratio: float = Field(default=0.60, gt=0, le=1, description="Memory from which on to warn.")
    orange_ratio: float = Field(
        default=0.75,
        gt=0,
        le=1,
        description="Memory from which on an engine gets no heavy work; if it is the gateway's, none does.",
    )
    red_ratio: float = Field(
        default=0.90,
        gt=0,
        le=1,
        description="Memory above which an engine gets no work; if it is the gateway's, new work is refused.",
    )
    recycle_after_s: float = Field(
        default=86_400.0, gt=0, description="An engine older than this is drained and started anew."
    )
    recycle_red_s: float = Field(
        default=60.0, gt=0, description="So is one whose memory stays above `red_ratio` for this long."
    )

    @property
    def is_open(self) -> bool:
        """Whether engines may join that are for everybody. Those that run code of users are not meant."""
        return self.token_file is not None

    @property
    def watermarks(self) -> Watermarks:
        return Watermarks(self.yellow_ratio, self.orange_ratio, self.red_ratio)

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        files = (self.certificate_file, self.key_file, self.authority_file)
        if any(files) and not all(files):
            raise ValueError(
                "fleet.certificate_file, key_file and authority_file are given together or not at all"
            )
        if self.catalog_bind is not None and not all(files):
            raise ValueError("fleet.catalog_bind needs fleet.certificate_file, key_file and authority_file")
        if not self.is_open and self.placement in (Placement.REQUIRE, Placement.PREFER):
            raise ValueError(
                f"fleet.placement is {self.placement}, but no engine can join: set fleet.token_file"
            )
        if not self.embedded and (not self.is_open or self.placement is Placement.LOCAL):
            raise ValueError(
                "without the embedded engine, engines must be able to join: set fleet.token_file"
            )
        self.watermarks  # noqa: B018  (says what is wrong with them)
        return self


class DedicatedConfig(BaseModel):
    """Spark sessions that are one user's own, as clients of Spark Connect have them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sessions_per_user_max: int = Field(
        default=64, ge=1, le=1_000, description="Sessions that one user may have open."
    )
    sessions_max: int = Field(
        default=256, ge=1, le=10_000, description="Sessions of all users together that may be open."
    )
