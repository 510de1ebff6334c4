"""What a gateway may import before Spark is begun: little, for both take seconds."""

import subprocess
import sys

HEAVY = ("pyarrow", "numpy", "pyspark", "sqlalchemy", "duckdb", "grpc", "uvicorn", "starlette")


def test_nothing_heavy_is_imported_before_spark_is_begun() -> None:
    script = f"import sys, bailiwick.app; print([name for name in {HEAVY} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "[]"
