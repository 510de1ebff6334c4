"""Who asks."""

from dataclasses import dataclass, field

ADMIN = "admin"
WRITER = "writer"
READER = "reader"


@dataclass(frozen=True, slots=True)
class Principal:
    """One who proved who they are, person or program. Made by the authenticator, never by a door."""

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
