"""What one may set about logs and traces."""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from bailiwick.telemetry.collector import Collector


class LoggingConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe level that is written."
    )
    format: Literal["console", "json"] = Field(
        default="console", description="`console` for people, `json` for machines."
    )
    breadcrumbs: bool = Field(default=False, description="Log each step of each query (the debug switch).")


class TracingConfig(BaseModel):
    """OpenTelemetry traces. Off until there is an endpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str | None = Field(
        default=None,
        max_length=2_000,
        description="A collector that speaks OTLP over HTTP, such as `http://127.0.0.1:4318`. Its path is "
        "`/v1/traces` unless another is given.",
    )
    headers: SecretStr | None = Field(
        default=None,
        description="Headers for the collector, such as its API key: `name=value`, separated by commas.",
    )
    ca_file: Path | None = Field(
        default=None, description="PEM: the CAs of an `https` collector. Default: those of the system."
    )
    plaintext: Literal["refused", "allowed"] = Field(
        default="refused", description="Whether `http` may lead to another machine."
    )
    ratio: float = Field(
        default=1.0, ge=0, le=1, description="The part of the traces begun here that is recorded."
    )
    join_callers: bool = Field(
        default=True,
        description="Whether a call that comes with a W3C `traceparent` joins that trace, and is recorded if "
        "its caller is.",
    )
    statement_text: bool = Field(
        default=False, description="Whether a query's span tells its text, without passwords."
    )
    service_name: str = Field(
        default="bailiwick", min_length=1, max_length=100, description="What the gateway is called in traces."
    )
    queue_length_max: int = Field(
        default=10_000, ge=100, le=1_000_000, description="Spans that may wait for the collector."
    )

    @property
    def is_on(self) -> bool:
        return self.endpoint is not None

    def collector(self) -> Collector | None:
        if self.endpoint is None:
            return None
        headers = "" if self.headers is None else self.headers.get_secret_value()
        return Collector.at(self.endpoint, ca_file=self.ca_file, secret_headers=headers)

    @model_validator(mode="after")
    def _leads_to_a_collector(self) -> Self:
        collector = self.collector()
        if collector is None:
            return self
        if not (collector.is_encrypted or collector.is_here or self.plaintext == "allowed"):
            raise ValueError(
                "tracing.endpoint would send traces to another machine without encryption: say https, or "
                'tracing.plaintext = "allowed"'
            )
        if self.ca_file is not None and not collector.is_encrypted:
            raise ValueError("tracing.ca_file does nothing without https in tracing.endpoint")
        return self
