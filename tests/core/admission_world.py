"""An endpoint without its connections: the state of admission, and the requests in flight that it would count."""

from typing import NamedTuple

import msgspec

from core.admission.decide import Request, decide
from core.admission.decision import Decision, Forward
from core.admission.events import AdmissionEvent, Failed, Finished, LoadSampled, Started, TurnedAway
from core.admission.observe import begin, observe, seen
from core.admission.rotation import rotation_of
from core.admission.state import Admission, Policy
from core.endpoint_spec import LoadVerdict
from core.units import MonotonicMs

ASK = Request(authorized=True)


class Known(NamedTuple):
    """`busy` has a pair (serial, requests in flight) for each backend that ever had one."""

    state: Admission
    busy: tuple[tuple[int, int], ...] = ()
    turn: int = 0

    def in_flight(self) -> list[int]:
        """In the order of the backends."""
        return [dict(self.busy).get(backend.serial, 0) for backend in self.state.backends]

    def learn(self, event: AdmissionEvent, ms: int) -> "Known":
        """Count, and observe. A stranger is counted nowhere."""
        busy, turn = dict(self.busy), self.turn
        serials = [backend.serial for backend in self.state.backends]
        if isinstance(event, Started) and event.serial in serials:
            busy[event.serial] = busy.get(event.serial, 0) + 1
            turn = serials.index(event.serial) + 1
        elif isinstance(event, (Finished, TurnedAway, Failed)) and event.serial in serials:
            busy[event.serial] = max(busy.get(event.serial, 0) - 1, 0)
        elif isinstance(event, LoadSampled):
            ours = dict(zip((backend.id for backend in self.state.backends), self.in_flight(), strict=True))
            event = msgspec.structs.replace(event, in_flight=ours.get(event.id, 0))
        return Known(observe(self.state, event, MonotonicMs(ms)), tuple(busy.items()), turn)

    def decide(self, request: Request, ms: int) -> Decision:
        """Where a request goes at that time."""
        return decide(rotation_of(self.state, MonotonicMs(ms)), request, self.in_flight(), self.turn)

    def ask(self, ms: int) -> "tuple[Decision, Known]":
        """The same, and the request is on its way."""
        decision = self.decide(ASK, ms)
        return decision, self.learn(Started(serial=decision.serial), ms) if isinstance(decision, Forward) else self

    def states(self, ms: int) -> dict[str, str]:
        """How each backend is seen."""
        return {backend.id: backend.state for backend in seen(self.state, self.in_flight(), MonotonicMs(ms))}


def sampled(name: str, waiting: int, verdict: LoadVerdict = "fine") -> LoadSampled:
    """What a sampler says; `Known.learn` puts in what is in flight."""
    return LoadSampled(id=name, waiting=waiting, running=1, verdict=verdict, in_flight=0)


def start(policy: Policy) -> Known:
    """Before the first backend is known."""
    return Known(begin(policy, MonotonicMs(0)))
