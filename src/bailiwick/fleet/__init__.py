"""Engines taken together: which there are, which are healthy, who gets a session of which."""
