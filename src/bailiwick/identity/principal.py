"""Who asks, and what the built-in roles let them do besides asking for data.

Data is no part of it: which tables, rows and columns somebody reaches goes by grants alone, except that an
admin reaches all. Whose queries one sees and ends is told in `abilities.py`.
"""

from dataclasses import dataclass, field

ADMIN = "admin"
OPERATOR = "operator"
AUDITOR = "auditor"
WRITER = "writer"
READER = "reader"

BUILT_IN_ROLES = frozenset({ADMIN, OPERATOR, AUDITOR, WRITER, READER})
DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Principal:
    """One who proved who they are, person or program. Made by the authenticator, never by a door."""

    name: str
    roles: frozenset[str] = field(default_factory=frozenset)
    """All of them: those given to the user, and those that come with these."""
    tenant: str = DEFAULT_TENANT
    actor: str | None = None
    """Who signed in, where that is somebody else: `actor` acts on behalf of `name`."""

    @property
    def is_admin(self) -> bool:
        return ADMIN in self.roles

    @property
    def is_acted_for(self) -> bool:
        """Whether somebody else acts in this name. Then nothing may be done that outlasts their right to:
        no password, token, role or rule is changed on behalf of anyone."""
        return self.actor is not None

    @property
    def may_ask(self) -> bool:
        """Run statements at all: everybody with a role. What they reach with them is another question."""
        return bool(self.roles)

    @property
    def may_see_all_queries(self) -> bool:
        """See the queries and sessions of every tenant, not only of one's own."""
        return bool(self.roles & {ADMIN, AUDITOR})

    @property
    def may_see_nodes(self) -> bool:
        """See the engines, where they run and how busy they are: that tells of other people's work, too."""
        return bool(self.roles & {ADMIN, OPERATOR, AUDITOR})

    @property
    def may_read_audit(self) -> bool:
        """Read what everyone did, and verify and export it."""
        return bool(self.roles & {ADMIN, AUDITOR})

    @property
    def may_read_policy(self) -> bool:
        """See all grants and rules, and have them explained for others."""
        return bool(self.roles & {ADMIN, AUDITOR})

    @property
    def may_change_policy(self) -> bool:
        """Change roles, filters, masks, tags and any grant. Owners may grant on what they own besides."""
        return self.is_admin and not self.is_acted_for
