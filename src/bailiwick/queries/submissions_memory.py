"""Submissions kept as long as the process lives. For tests, and for gateways that keep no history."""

from dataclasses import replace

from bailiwick.queries.submissions import Outcome, Submission, SubmissionId, SubmissionStore


class MemorySubmissionStore(SubmissionStore):
    """Every step is done in one go: nothing can come between, on one event loop."""

    def __init__(self) -> None:
        self._kept: dict[SubmissionId, Submission] = {}

    async def claim(self, wanted: Submission, *, keys_max: int) -> Submission | None:
        found = self._kept.get(wanted.id)
        if found is not None and found.expires_at > wanted.claimed_at:
            return found
        own = sum(_owner(each) == _owner(wanted.id) for each in self._kept)
        if own >= keys_max and found is None:
            return None
        self._kept[wanted.id] = wanted
        return wanted

    async def take_over(self, found: Submission, wanted: Submission) -> bool:
        held = self._held(found)
        if held is None or held.begun_at is not None or held.outcome is not None:
            return False
        self._kept[wanted.id] = wanted
        return True

    async def begin(self, held: Submission, *, at: float) -> bool:
        kept = self._held(held)
        if kept is None or kept.outcome is not None:
            return False
        self._kept[held.id] = replace(kept, begun_at=at)
        return True

    async def give_back(self, held: Submission) -> None:
        kept = self._held(held)
        if kept is not None and kept.outcome is None:
            self._kept[held.id] = replace(kept, begun_at=None)

    async def end(self, held: Submission, outcome: Outcome) -> None:
        kept = self._held(held)
        if kept is not None:
            self._kept[held.id] = replace(kept, outcome=outcome)

    async def prune(self, *, expired_before: float) -> int:
        old = [each.id for each in self._kept.values() if each.expires_at <= expired_before]
        for one in old:
            del self._kept[one]
        return len(old)

    def _held(self, submission: Submission) -> Submission | None:
        """What is kept, if the claim is still that query's."""
        kept = self._kept.get(submission.id)
        return kept if kept is not None and kept.query_id == submission.query_id else None


def _owner(one: SubmissionId) -> tuple[str, str, str]:
    return one.tenant, one.principal, one.actor
