"""What one may set about the catalog."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class CatalogConfig(BaseModel):
    """Where tables live."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    warehouse_dir: Path | None = Field(
        default=None,
        description="Where tables are kept, for gateways and engines alike. Default: `warehouse/` in the "
        "data directory. Gateways that share a database share this, too.",
    )
