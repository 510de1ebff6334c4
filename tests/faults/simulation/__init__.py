"""Thousands of bad days in seconds: the deciding modules of the gateway under a clock that we move.

Real are `fleet.health`, `fleet.schedule`, `fleet.admission` and `queries.machine`. Around them, `gateway.py`
does what the registry, the pool and the query service do about their decisions, and `engines.py` plays
engines, keepers and the network. `faults.py` makes a bad day from a seed, `promises.py` watches. One seed is
one day: the same seed always gives the same story.
"""
