r"""Search patterns of browsing tools: `%` is any text, `_` any character, `\` takes the next as it is.

Some tools send a whole SQL statement as a pattern for a table's name. So a pattern costs next to nothing
where it is longer than any name can be, and a match never takes more than one step a character: the pattern
is a machine that is in many states at once, one bit a state.

>>> pattern("ord_r%").matches("orders")
True
>>> pattern(r"ord\_r%").matches("orders")
False
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

LENGTH_MAX = 4096
"""More characters than any name that can be asked for has; a pattern that needs more matches nothing."""

_TOKEN = re.compile(r"(?P<any>%+)|(?P<one>_)|\\(?P<escaped>.)|(?P<plain>.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pattern:
    length_min: int
    literals: Mapping[str, int]
    """Where each character stands, as a bit mask of positions."""
    singles: int
    """The positions of `_`."""
    gaps: int
    """The positions before which, and after the last of which, any text may stand."""
    exact: str | None = None
    """The only name that matches, for a pattern that leaves nothing open."""

    def matches(self, name: str) -> bool:
        if self.exact is not None:
            return name == self.exact
        if self.length_min > min(len(name), LENGTH_MAX):
            return False
        states = 1
        for character in name:
            passing = states & (self.singles | self.literals.get(character, 0))
            states = passing << 1 | states & self.gaps
            if not states:
                return False
        return bool(states >> self.length_min & 1)


def pattern(text: str | None) -> Pattern:
    """Nothing given matches everything."""
    literals: dict[str, int] = {}
    plain: list[str] = []
    position = singles = gaps = 0
    for token in _TOKEN.finditer("%" if text is None else text):
        if token["any"]:
            gaps |= 1 << position
            continue
        if position >= LENGTH_MAX:
            return _NOTHING
        if token["one"]:
            singles |= 1 << position
        else:
            character = token["escaped"] or token["plain"]
            literals[character] = literals.get(character, 0) | 1 << position
            plain.append(character)
        position += 1
    return Pattern(position, literals, singles, gaps, None if singles or gaps else "".join(plain))


_NOTHING = Pattern(LENGTH_MAX + 1, {}, 0, 0)
