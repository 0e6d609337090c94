"""How much of a model waits at the provider: a pack that would be too much waits here, on disk.

A provider refuses a batch as a whole when its queue for the model is full, so what is sent too early is sent in vain.
"""

from asyncio import Event

from trialrun.core.packs import UNSENT, Pack
from trialrun.core.ports import Clock
from trialrun.core.study import Batching
from trialrun.gateway.batches.deadline import Deadline
from trialrun.gateway.pausing import pause

_LOOK_AGAIN_S = 1.0


class WaitingRoom:
    """The packs at the provider, or on their way there, of which there may be so many tokens at a time."""

    def __init__(
        self, settings: Batching, clock: Clock, stopping: Event, deadline: Deadline, *, is_detached: bool
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._stopping = stopping
        self._deadline = deadline
        self._is_detached = is_detached
        self._carried: dict[str, Pack] = {}
        """Packs that a courier is busy with."""
        self._left: dict[str, Pack] = {}
        """Packs that stay at the provider though nobody waits for them in this run."""

    def remember(self, packs: list[Pack]) -> None:
        """Begin with what earlier runs left at the provider."""
        self._carried.update({pack.id: pack for pack in packs if pack.stage in ("creating", "created")})

    async def enter(self, pack: Pack) -> bool:
        """Wait until there is room, or no time. False if nobody in this run waits for what is in the way."""
        if pack.stage in UNSENT:
            while not self._has_room(pack, [*self._carried, *self._left]):
                if self._stopping.is_set() or self._deadline.is_past:
                    break
                if not self._has_room(pack, [*self._left]):
                    return False
                look_s = _LOOK_AGAIN_S if self._is_detached else self._settings.poll_s
                await pause(self._clock, min(look_s, self._deadline.left_s), self._stopping)
        # No await between the check and this: two packs must not both take the last of the room.
        self._carried[pack.id] = pack
        return True

    def leave(self, pack: Pack) -> None:
        """The courier is done with it, for this run."""
        self._carried.pop(pack.id, None)
        if self._is_detached and pack.stage in ("creating", "created"):
            self._left[pack.id] = pack

    def _has_room(self, pack: Pack, ids: list[str]) -> bool:
        """A pack that is too large by itself may go if it is alone."""
        most = self._settings.queued_tokens
        others = [self._carried.get(id_) or self._left[id_] for id_ in ids]
        queued = sum(other.tokens for other in others if other.model == pack.model and other.id != pack.id)
        return most is None or not queued or queued + pack.tokens <= most
