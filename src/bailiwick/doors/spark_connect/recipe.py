"""What makes a client's session what it is, so that it can be made again on another engine. Pure.

A recipe has settings, the current catalog and schema, and the temporary views and functions in the order in
which they were made. Views may be made of what is gone since, so what a later step may need stays, unless too
much has gathered: then the recipe says that it is not whole, and nobody pretends that it is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

STEPS_MAX: Final = 300
STEPS_BYTES_MAX: Final = 8 << 20
_USES_KEPT: Final = 2
"""The last one may say a schema only, and the one before it in which catalog."""


@dataclass(frozen=True, slots=True)
class Use:
    """A plan that sets the current catalog or schema, as bytes."""

    plan: bytes


@dataclass(frozen=True, slots=True)
class MakeView:
    """A plan, as bytes, that makes a temporary view."""

    name: str
    plan: bytes
    is_of_frame: bool
    """Whether it holds what a DataFrame was, rather than a text that is read anew each time."""
    mentions: str = ""
    """Text in which every name that the view may read occurs."""


@dataclass(frozen=True, slots=True)
class DropView:
    name: str


@dataclass(frozen=True, slots=True)
class MakeFunction:
    """A plan, as bytes, that makes a function of its author's code."""

    name: str
    plan: bytes


Step = MakeView | DropView | MakeFunction


@dataclass(frozen=True, slots=True)
class Recipe:
    confs: Mapping[str, str] = field(default_factory=dict)
    uses: tuple[Use, ...] = ()
    steps: tuple[Step, ...] = ()
    has_code: bool = False
    """Whether there is or was code of its client's in it."""
    lost: str | None = None
    """What cannot be made again, where there is something."""

    @property
    def is_empty(self) -> bool:
        return not self.confs and not self.uses and not self.steps and not self.has_code

    @property
    def has_frames(self) -> bool:
        """Whether there are views that hold what was decided when they were made."""
        return any(isinstance(step, MakeView) and step.is_of_frame for step in self.steps)

    @property
    def views(self) -> tuple[str, ...]:
        """The names of those that exist now, in lower case."""
        names: dict[str, None] = {}
        for step in self.steps:
            if isinstance(step, MakeView):
                names[step.name.lower()] = None
            elif isinstance(step, DropView):
                names.pop(step.name.lower(), None)
        return tuple(names)

    def with_conf(self, key: str, value: str) -> "Recipe":
        return replace(self, confs={**self.confs, key: value})

    def without_conf(self, key: str) -> "Recipe":
        return replace(self, confs={known: value for known, value in self.confs.items() if known != key})

    def with_use(self, plan: bytes) -> "Recipe":
        uses = tuple(use for use in self.uses if use.plan != plan)
        return replace(self, uses=(*uses, Use(plan))[-_USES_KEPT:])

    def with_view(self, view: MakeView) -> "Recipe":
        return self._bounded((*self._without(view.name, then=view), view))

    def with_code(self) -> "Recipe":
        return replace(self, has_code=True)

    def with_function(self, function: MakeFunction) -> "Recipe":
        """What one of that name was before is needed by the views that were made with it."""
        steps, later = list(self.steps), len(self.steps)
        while later and not isinstance(steps[later - 1], MakeView):
            later -= 1
        kept = [step for step in steps[later:] if not _is_function(step, function.name)]
        return self._bounded((*steps[:later], *kept, function))

    def without_view(self, name: str) -> "Recipe":
        if name.lower() not in self.views:
            return self
        steps = self._without(name)
        is_needed = any(isinstance(step, MakeView) and _is_view(step, name) for step in steps)
        return self._bounded((*steps, DropView(name)) if is_needed else steps)

    def _without(self, name: str, then: MakeView | None = None) -> tuple[Step, ...]:
        """The steps without those about `name` that no later step needs."""
        kept: list[Step] = []
        later: list[MakeView] = [] if then is None else [then]
        for step in reversed(self.steps):
            if not _is_view(step, name) or any(_mentions(one, name) for one in later):
                kept.append(step)
                if isinstance(step, MakeView):
                    later.append(step)
        return tuple(reversed(kept))

    def _bounded(self, steps: tuple[Step, ...]) -> "Recipe":
        size_bytes = sum(len(step.plan) for step in steps if not isinstance(step, DropView))
        if len(steps) <= STEPS_MAX and size_bytes <= STEPS_BYTES_MAX:
            return replace(self, steps=steps)
        return replace(self, steps=(), lost="more temporary views and functions than can be made again")


def _is_view(step: Step, name: str) -> bool:
    return not isinstance(step, MakeFunction) and step.name.lower() == name.lower()


def _is_function(step: Step, name: str) -> bool:
    return isinstance(step, MakeFunction) and step.name.lower() == name.lower()


def _mentions(view: MakeView, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", view.mentions.lower()) is not None
