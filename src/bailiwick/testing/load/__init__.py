"""Many clients at once, and whether each of them got the right answer: `python -m bailiwick.testing.load`."""
