"""How long a wrong credential waits, and when a guess is not even looked at. Pure: time comes as an argument.

A wrong answer waits, twice as long for each failure of that user name or from that network, up to 8 seconds.
Waiting alone does not stop someone who guesses on many connections at once. So while `HELD_MAX` wrong answers
of one user name from one network are waiting, further guesses of that pair are turned away unread, which
leaves about one guess in two seconds. The waiting counts even when the caller hangs up.

Locking others out. Whatever lets a right password through during an attack lets guesses through too, unless
the two differ in where they come from. So only the pair of name and network is ever turned away: nobody can
keep a user out from another network, and on a shared one (a proxy, loopback) an attack on one name does not
touch other names. Failures never delay a right password, and tokens are never turned away. A success resets
nothing, else a guesser with an account of their own could wipe the record; five quiet minutes do.
"""

from collections import OrderedDict
from dataclasses import dataclass

DELAY_MAX_S = 8.0
HELD_MAX = 4
QUIET_S = 300.0
REMEMBERED_MAX = 20_000


@dataclass(slots=True)
class _Failures:
    count: int
    latest_at: float
    held_until: tuple[float, ...] = ()


class Throttle:
    """Remembers failures, a bounded number of them, the oldest forgotten first."""

    def __init__(self, first_delay_s: float) -> None:
        self._first_delay_s = first_delay_s
        self._failures: OrderedDict[tuple[str, ...], _Failures] = OrderedDict()

    def turned_away_s(self, user: str, network: str, now: float) -> float:
        """In how many seconds this pair may try again; 0 means now."""
        failures = self._failures.get(("pair", user, network))
        if failures is None:
            return 0.0
        held = sorted(until for until in failures.held_until if until > now)
        return held[-HELD_MAX] - now if len(held) >= HELD_MAX else 0.0

    def failed(self, user: str | None, network: str, now: float) -> float:
        """Note a failure; returns how long its answer is to wait. A token names nobody: `user` is None."""
        count = self._note(("network", network), now).count
        if user is None:
            return self._delay_s(count)
        count = max(count, self._note(("user", user), now).count)
        delay_s = self._delay_s(count)
        pair = self._note(("pair", user, network), now)
        still_held = (until for until in pair.held_until if until > now)
        pair.held_until = (*still_held, now + delay_s)[-2 * HELD_MAX :]
        return delay_s

    def _note(self, key: tuple[str, ...], now: float) -> _Failures:
        failures = self._failures.get(key)
        if failures is None or now - failures.latest_at > QUIET_S:
            failures = self._failures[key] = _Failures(0, now)
        failures.count += 1
        failures.latest_at = now
        self._failures.move_to_end(key)
        if len(self._failures) > REMEMBERED_MAX:
            self._failures.popitem(last=False)
        return failures

    def _delay_s(self, count: int) -> float:
        doubled = self._first_delay_s * (1 << min(count - 1, 32))
        return min(doubled, max(DELAY_MAX_S, self._first_delay_s))
