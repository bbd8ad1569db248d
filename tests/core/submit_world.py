"""A cluster and several ``dd-slurm submit`` of one run, all at once, that may die between any two steps."""

from collections.abc import Callable

from core.submit import state as s
from core.submit.answer import Unclear
from core.submit.records import Absent, Job, Receipt, Submitted
from core.submit.sight import Blind, Row, Seen, Sight
from core.submit.step import begin, step
from core.units import MonotonicMs
from tests.core.submit_story import plan_for

Move = Callable[[], None]
PLAN = plan_for(1, s.Patience(quiet_ms=500))
"""Little patience, so that submissions are given up while their requests are on the way."""


class World:
    """What is on disk and in Slurm; processes come and go. `now` moves with every step, so patience runs out."""

    def __init__(self) -> None:
        self.now = 0
        self.intents: list[int] = []
        self.receipts: dict[int, Receipt] = {}
        self.marked: set[int] = set()
        self.jobs: dict[str, int] = {}
        self.held: set[str] = set()
        self.gone: set[str] = set()
        self.on_the_way: list[int] = []
        self.processes: list[Process] = []

    def moves(self) -> list[Move]:
        """What can happen next."""
        alive = [process for process in self.processes if not process.over]
        arrive = [self.arrive] if self.on_the_way else []
        come = [self.come] if len(alive) < 3 else []
        return [*come, *arrive, *(move for process in alive for move in process.moves())]

    def come(self) -> None:
        """Somebody starts another ``dd-slurm submit FOLDER``."""
        self.processes.append(Process(self))

    def arrive(self) -> None:
        """A request that was on its way reaches Slurm, which makes a held job, whoever asked for it."""
        number = self.on_the_way.pop(0)
        job = str(len(self.jobs) + 1)
        self.jobs[job] = number
        self.held.add(job)

    def started(self) -> set[str]:
        return {job for job in self.jobs if job not in self.held}

    def standing(self) -> set[str]:
        return {receipt.job.job_id for receipt in self.receipts.values() if isinstance(receipt, Submitted)}

    def unfinished(self) -> set[str]:
        return set(self.jobs) - self.gone

    def let_everybody_finish(self) -> None:
        """All requests arrive or are lost for good; then one more process comes, without any mishap."""
        while self.on_the_way:
            self.arrive()
        for process in self.processes:
            process.finish()
        last = Process(self)
        last.finish()
        assert last.over


class Process:
    """One ``dd-slurm submit FOLDER``, step by step, as `shell.submission.submit` carries it out."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.over = False
        self._take_up()

    def moves(self) -> list[Move]:
        looking = isinstance(self._state, s.Looking)
        asking = [self.lose_the_answer] if isinstance(self._state, s.Asking) else []
        return [self.go_on, self.die, *asking, *([self.blind, self.look_to_the_end] if looking else [])]

    def die(self) -> None:
        self.over = True

    def finish(self) -> None:
        while not self.over:
            self.go_on()

    def look_to_the_end(self) -> None:
        """Until there is something to write down."""
        while not self.over and isinstance(self._state, s.Looking):
            self.go_on()

    def lose_the_answer(self) -> None:
        """The answer to sbatch is lost; the request itself is on its way still."""
        self._world.on_the_way.append(self._number)
        self._event(s.Answered(at=self._now(), answer=Unclear(reason="lost")))

    def blind(self) -> None:
        if isinstance(self._effects[-1], s.Look):
            self._event(s.Looked(at=self._now(), sight=Blind(reason="down")))

    def go_on(self) -> None:
        (effect,) = self._effects
        event = self._carry_out(effect)
        if event is not None:
            self._event(event)

    def _take_up(self) -> None:
        self._cancel_late_ones()
        world = self._world
        self._number = world.intents[-1] if world.intents else 0
        if self._number == 0:
            self._make_intent()
            return
        receipt = world.receipts.get(self._number)
        released = self._number in world.marked
        start = s.LeftUnclear() if receipt is None else s.Settled(receipt=receipt, released=released)
        self._begin(start)

    def _make_intent(self) -> None:
        """Exclusive: who finds it made takes it up."""
        number = self._number + 1
        if number in self._world.intents:
            self._take_up()
            return
        self._number = number
        self._world.intents.append(number)
        self._begin(s.Fresh())

    def _begin(self, start: s.Start) -> None:
        self._moved(begin(start, self._now()))

    def _event(self, event: s.Event) -> None:
        self._moved(step(PLAN, self._state, event))

    def _moved(self, move: tuple[s.State, tuple[s.Effect, ...]]) -> None:
        self._state, self._effects = move
        if isinstance(self._state, s.Ended):
            for effect in self._effects:
                self._carry_out(effect)
            end = self._state.end
            if isinstance(end, s.NotSubmitted):
                self._make_intent()
            else:
                self.over = True

    def _carry_out(self, effect: s.Effect) -> s.Event | None:
        world = self._world
        match effect:
            case s.Ask():
                world.on_the_way.append(self._number)
                world.on_the_way.insert(0, world.on_the_way.pop())
                world.arrive()
                answer = Submitted(job=Job(job_id=str(len(world.jobs))), how="answered")
                return s.Answered(at=self._now(), answer=answer)
            case s.Look():
                return s.Looked(at=self._now(), sight=self._sight(self._number))
            case s.Record(receipt=receipt):
                return s.Stands(at=self._now(), receipt=world.receipts.setdefault(self._number, receipt))
            case s.Release(job=job):
                world.held -= {job.job_id} - world.gone
                return s.Released(at=self._now(), reason=None)
            case s.Cancel(job=job):
                world.gone.add(job.job_id)
                return s.Cancelled(at=self._now(), reason=None)
            case s.MarkReleased():
                world.marked.add(self._number)
                return None
            case s.WakeAt(at=at):
                world.now = max(world.now, at)
                return s.TimerFired(at=self._now())

    def _cancel_late_ones(self) -> None:
        for number, receipt in self._world.receipts.items():
            if isinstance(receipt, Absent):
                self._world.gone |= {job for job, of in self._world.jobs.items() if of == number}

    def _sight(self, number: int) -> Sight:
        jobs = [job for job, of in self._world.jobs.items() if of == number]
        states = {job: "CANCELLED" if job in self._world.gone else "PENDING" for job in jobs}
        return Seen(rows=tuple(Row(job=Job(job_id=job), index=None, state=states[job]) for job in jobs))

    def _now(self) -> MonotonicMs:
        self._world.now += 10
        return MonotonicMs(self._world.now)
