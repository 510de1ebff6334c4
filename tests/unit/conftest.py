"""How many examples hypothesis tries: few before each commit, many in `make test-all`.

They are other ones each time, so that few at a time still cover much over the days. No example has a deadline
of its own, because how long one takes says more about what else the machine does; each test has one.
"""

from hypothesis import settings

settings.register_profile("few", max_examples=30, deadline=None)
settings.register_profile("many", max_examples=300, deadline=None)
settings.load_profile("few")
