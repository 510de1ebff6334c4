"""Bailiwick: a sovereign query gateway for Spark."""

__version__ = "0.1.0"
