"""What follows from events of servers."""

from typing import assert_never

from core.supervise.change import Move, alter, end_unit, unit_of, with_unit
from core.supervise.effects import StartServer
from core.supervise.events import (
    RebindRefused,
    Rebound,
    ServerEvent,
    ServerExited,
    ServerForeign,
    ServerReady,
    ServerStalled,
    TaskExited,
)
from core.supervise.plan import SupervisePlan
from core.supervise.relaunch import bury
from core.supervise.state import Booting, Ending, GivenUp, Ready, Rebinding, State, Stopping, Unit, Waiting
from core.supervise.verdict import ForeignAnswered, NoPorts, RankExited, Stuck
from core.units import NodeName


def on_server(plan: SupervisePlan, state: State, event: ServerEvent) -> Move:
    """The move for an event of a server; nothing for one of another launch."""
    unit = unit_of(state, event.step, event.launch)
    if unit is None:
        return state, ()
    match event:
        case TaskExited(node=node):
            if not isinstance(unit.life, Booting | Ready):
                return state, ()
            return end_unit(plan, state, unit, _rank_exited(unit, event, node), event.at)
        case ServerExited():
            return _exited(plan, state, unit, event)
        case ServerReady(at=at):
            if not isinstance(unit.life, Booting) or isinstance(state.phase, Stopping):
                return state, ()
            return with_unit(state, alter(unit, Ready(since=at))), ()
        case ServerForeign(found=found, wanted=wanted):
            if not isinstance(unit.life, Booting):
                return state, ()
            return end_unit(plan, state, unit, ForeignAnswered(found=found, wanted=wanted), event.at)
        case ServerStalled():
            return end_unit(plan, state, unit, Stuck(), event.at) if isinstance(unit.life, Ready) else (state, ())
        case Rebound(at=at):
            if not isinstance(unit.life, Rebinding) or isinstance(state.phase, Stopping):
                return state, ()
            start = StartServer(step=unit.step, launch=unit.launch)
            return with_unit(state, alter(unit, Booting(since=at))), (start,)
        case RebindRefused(reasons=reasons):
            if not isinstance(unit.life, Rebinding):
                return state, ()
            return bury(plan, state, unit, NoPorts(reasons=reasons), event.at)
        case _:
            assert_never(event)


def _exited(plan: SupervisePlan, state: State, unit: Unit, event: ServerExited) -> Move:
    match unit.life:
        case Booting() | Ready():
            return bury(plan, state, unit, _rank_exited(unit, event, None), event.at)
        case Ending(cause=ending):
            return bury(plan, state, unit, ending, event.at)
        case Waiting() | Rebinding() | GivenUp():
            return state, ()
        case _:
            assert_never(unit.life)


def _rank_exited(unit: Unit, event: TaskExited | ServerExited, node: NodeName | None) -> RankExited:
    """The process that ended first, where it is known: the codes of workers and steps say only that one did."""
    serving = isinstance(unit.life, Ready)
    if event.first is None:
        return RankExited(code=event.code, node=node, serving=serving)
    return RankExited(code=event.first.code, node=event.first.node, serving=serving, lane=event.first.lane)
