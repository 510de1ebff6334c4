"""The Spark Connect door: unmodified PySpark, under the same rules as every other client."""
