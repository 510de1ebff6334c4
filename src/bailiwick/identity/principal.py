"""Who asks."""

from dataclasses import dataclass, field

ADMIN = "admin"
OPERATOR = "operator"
AUDITOR = "auditor"
WRITER = "writer"
READER = "reader"

BUILT_IN_ROLES = frozenset({ADMIN, OPERATOR, AUDITOR, WRITER, READER})


@dataclass(frozen=True, slots=True)
class Principal:
    """One who proved who they are, person or program. Made by the authenticator, never by a door."""

    name: str
    roles: frozenset[str] = field(default_factory=frozenset)
    """All of them: those given to the user, and those that come with these."""
    tenant: str = "default"
    actor: str | None = None
    """Who signed in, where that is somebody else: `actor` acts on behalf of `name`."""

    @property
    def is_admin(self) -> bool:
        return ADMIN in self.roles

    @property
    def may_write(self) -> bool:
        return bool(self.roles & {ADMIN, WRITER})

    @property
    def may_read(self) -> bool:
        return bool(self.roles & {ADMIN, WRITER, READER})
