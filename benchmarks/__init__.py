"""How Bailiwick compares with the stock PySpark client on the same engine, catalog and data: `make bench`.

Never part of the tests: a figure is only worth something on a machine that does nothing else.
"""
