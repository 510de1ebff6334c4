"""Who asks."""

from dataclasses import dataclass, field

ADMIN = "admin"
WRITER = "writer"
READER = "reader"


@dataclass(frozen=True, slots=True)
class Principal:
    """A person or a program that proved who it is. Doors get one from the authenticator, never from a client."""

    name: str
    roles: frozenset[str] = field(default_factory=frozenset)
    tenant: str = "default"

    @property
    def is_admin(self) -> bool:
        return ADMIN in self.roles

    @property
    def may_write(self) -> bool:
        return bool(self.roles & {ADMIN, WRITER})

    @property
    def may_read(self) -> bool:
        return bool(self.roles & {ADMIN, WRITER, READER})
