"""How `core` says no: a `Result` whose failure side is always *all* the problems found."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, TypeVar

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from core.problem import Problem, Problems

T = TypeVar("T")
U = TypeVar("U")

Outcome: TypeAlias = Result[T, Problems]
Rule: TypeAlias = Callable[[T], Iterator[Problem]]


def check(value: T, *rules: Rule[T]) -> Outcome[T]:
    """Give `value` back if no rule objects; otherwise every objection, in the order of the rules."""
    return unless(tuple(problem for rule in rules for problem in rule(value)), value)


def unless(problems: Iterable[Problem], value: T) -> Outcome[T]:
    """`value`, unless there is a problem."""
    found = tuple(problems)
    return Failure(found) if found else Success(value)


def refuse(*problems: Problem) -> Outcome[T]:
    """Say no."""
    return Failure(problems)


def problems_of(outcome: Outcome[T]) -> Problems:
    """What is wrong; empty when nothing is."""
    return () if is_successful(outcome) else outcome.failure()


def collect(outcomes: Iterable[Outcome[T]]) -> Outcome[tuple[T, ...]]:
    """Turn many outcomes into one: all the values, or all the problems."""
    values: list[T] = []
    problems: list[Problem] = []
    for outcome in outcomes:
        if is_successful(outcome):
            values.append(outcome.unwrap())
        else:
            problems.extend(outcome.failure())
    return unless(problems, tuple(values))


def both(left: Outcome[T], right: Outcome[U]) -> Outcome[tuple[T, U]]:
    """Pair two independent outcomes, keeping the problems of either."""
    if is_successful(left) and is_successful(right):
        return Success((left.unwrap(), right.unwrap()))
    return Failure((*problems_of(left), *problems_of(right)))
