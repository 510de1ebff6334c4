"""What a caller proves itself with. Neither shows its secret when printed."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Password:
    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Token:
    token: str = field(repr=False)


Credentials = Password | Token
