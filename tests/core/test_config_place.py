"""Which fields can be trusted, and that asking costs little however many are broken."""

import json
import sys
from types import FrameType

from hypothesis import given
from hypothesis import strategies as st

from core.config.located import Located
from core.config.place import Place, unsound
from core.config.read import read_run_file
from core.outcome import problems_of

GOOD = {"schema_version": 1, "name": "run", "builder": {"source": "c.yaml"}, "invocation": {"num_records": 10}}


def calls_to_read(mistakes: int) -> int:
    """Calls of functions of ours until a file with so many mistakes is judged."""
    document = {**GOOD, "deployments": [{"model_alias": f"m{number}", "model": 5} for number in range(mistakes)]}
    content, calls = json.dumps(document).encode(), 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and "/core/config/" in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        read = read_run_file("run.json", content)
    finally:
        sys.setprofile(None)
    assert len(problems_of(read)) == mistakes
    return calls


def test_ten_times_the_mistakes_cost_ten_times_as_much() -> None:
    assert calls_to_read(300) < 11 * calls_to_read(30)


PATHS = st.lists(st.sampled_from([".a", ".b", "[0]", "[1]", ".a.b"]), max_size=3).map(lambda parts: "".join(parts)[1:])


@given(st.lists(PATHS, max_size=3), PATHS)
def test_a_field_is_sound_unless_something_at_in_or_around_it_is_broken(broken: list[str], path: str) -> None:
    def around(outer: str, inner: str) -> bool:
        return outer in ("", inner) or inner.startswith((f"{outer}.", f"{outer}["))

    place = Place(file=Located(value=None, source="f"), unsound=unsound(broken), path=path)
    assert place.sound() is not any(around(bad, path) or around(path, bad) for bad in broken)
