"""Why servers die: captured logs and reported ones, and laws of the diagnosis."""

import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.codec import canonical_json
from core.config.profile import ProfileCatalog
from core.config.run_config import RunConfig
from core.vllm.diagnose import CATALOGUE, LONGEST_EVIDENCE, RankLog, diagnose, diagnose_ranks
from core.vllm.known_cause import WEIGHTS, KnownCause
from core.vllm.log_lines import read_log
from tests.conftest import Golden
from tests.docs_tables import rows
from tests.vllm_logs import CASES, FOLDER, Case

PAGE = Path(__file__).parents[2] / "docs" / "vllm.md"
TABLE = re.compile(r"(?<=^\|---\|---\|---\|---\|---\|\n)(?:\|.*\n)*", re.MULTILINE)
CASES_BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_logs(case: Case, golden: Golden) -> None:
    golden(FOLDER / f"{case.name}.expected.json", canonical_json(diagnose_ranks(case.logs, case.vllm)).decode())


def test_every_log_has_a_source_and_every_source_a_log() -> None:
    told = {path.name for case in CASES for path in case.paths}
    assert told == {path.name for path in FOLDER.glob("*.log")}
    assert {f"{case.name}.expected.json" for case in CASES} == {path.name for path in FOLDER.glob("*.json")}


def test_every_known_cause_was_seen() -> None:
    seen = {found.cause for case in CASES if (found := diagnose_ranks(case.logs, case.vllm))}
    assert seen == {known.code for known in CATALOGUE}
    assert len(seen) > 25


def _rows() -> Iterator[str]:
    kinds: dict[str, set[str]] = {}
    for case in CASES:
        if found := diagnose_ranks(case.logs, case.vllm):
            kinds.setdefault(found.cause, set()).add("**real**" if "real" in case.source else "*reported*")
    for known in {known.code: known for known in reversed(CATALOGUE)}.values():
        hint = known.hint.replace("{with_version}", "").replace("{", "<").replace("}", ">").replace("|", "\\|")
        seen = ", ".join(sorted(kinds.get(known.code, {"never"})))
        yield f"| `{known.code}` | {known.title} | {known.weight} | {hint} | {seen} |\n"


def test_the_catalogue_in_the_documentation(golden: Golden) -> None:
    rows = "".join(sorted(_rows()))
    page, count = TABLE.subn(lambda _: rows, PAGE.read_text())
    assert count == 1
    golden(PAGE, page)


def _lines(name: str) -> list[str]:
    (log,) = CASES_BY_NAME[name].logs
    return list(log.lines)


@pytest.mark.parametrize("name", ["healthy", "healthy_two_workers", "stopped_while_loading", "words_without_weight"])
def test_words_alone_are_no_cause(name: str) -> None:
    assert diagnose(_lines(name), "0.32.0") is None


def test_a_cause_is_found_above_the_last_line() -> None:
    lines = _lines("weights_missing")
    assert "Engine core initialization failed" in lines[-1]
    found = diagnose(lines, "0.32.0")
    assert found is not None
    assert found.cause == "weights-missing"
    assert found.evidence in lines


def test_the_cause_of_one_rank_explains_all() -> None:
    found = diagnose_ranks(CASES_BY_NAME["ranks_model_on_one_node_only"].logs, None)
    assert found is not None
    assert (found.cause, found.log) == ("model-path-missing", "n1")


def test_the_first_cause_is_the_root_even_over_new_year() -> None:
    found = diagnose_ranks(CASES_BY_NAME["ranks_first_of_two_causes"].logs, None)
    assert found is not None
    assert (found.cause, found.log) == ("gpu-memory", "n1")


def test_an_exit_code_speaks_where_the_log_does_not() -> None:
    assert diagnose(["INFO: loading"], None) is None
    for code in (-9, 137):
        found = diagnose(["INFO: loading"], None, code)
        assert found is not None
        assert (found.cause, found.evidence) == ("killed", "it ended by signal 9")


def test_a_cause_in_the_log_is_better_than_an_exit_code() -> None:
    found = diagnose(["OSError: [Errno 28] No space left on device", "Connection reset by peer"], None, -11)
    assert found is not None
    assert found.cause == "disk-full"


def test_the_version_stands_in_hints_that_depend_on_it() -> None:
    line = ["vllm: error: unrecognized arguments: --max-num-queued-reqs 8"]
    found, unknown = diagnose(line, "0.24.0"), diagnose(line, None)
    assert found is not None
    assert unknown is not None
    assert found.hint.endswith("this is vLLM 0.24.0")
    assert "vLLM 0" not in unknown.hint


def _words_in(hint: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(hint) if name}


@pytest.mark.parametrize("known", CATALOGUE, ids=lambda known: known.code)
def test_every_pattern_has_the_words_of_its_hint(known: KnownCause) -> None:
    assert known.patterns
    for pattern in known.patterns:
        assert _words_in(known.hint) - {"with_version"} == {
            name for name in _words_in(known.hint) if f"(?P<{name}>" in pattern
        }
    assert not known.exits or not _words_in(known.hint)


@pytest.mark.parametrize("known", CATALOGUE, ids=lambda known: known.code)
def test_hints_name_fields_that_exist(known: KnownCause) -> None:
    fields = [path for struct in (RunConfig, ProfileCatalog) for path, _, _ in rows(struct)]
    for named in re.findall(r"`([a-z_.]+)(?:: [a-z]+)?`", known.hint):
        assert named == "dmesg" or any(f".{path}".endswith(f".{named}") for path in fields), named


def test_one_code_has_one_title() -> None:
    titles: dict[str, set[str]] = {}
    for known in CATALOGUE:
        titles.setdefault(known.code, set()).add(known.title)
    assert all(len(found) == 1 for found in titles.values())


def test_weights_are_in_order() -> None:
    by_weight = [[known for known in CATALOGUE if known.weight == weight] for weight in WEIGHTS]
    assert all(by_weight)


LINES = st.lists(
    st.text(max_size=80) | st.sampled_from([line for case in CASES for log in case.logs for line in log.lines])
)


@given(LINES, st.none() | st.integers(-64, 255))
def test_no_log_raises(lines: list[str], code: int | None) -> None:
    found = diagnose(lines, None, code)
    if found:
        assert 0 < len(found.evidence) <= LONGEST_EVIDENCE
        assert "{" not in found.hint.replace("{}", "") or "{" in found.evidence


@given(LINES)
def test_quiet_lines_change_nothing(lines: list[str]) -> None:
    loud = [line.whole for line in read_log(lines) if not line.quiet or "startup complete" in line.whole]
    assert (diagnose(loud) is None) == (diagnose(lines) is None)


def test_order_of_logs_does_not_matter() -> None:
    logs = CASES_BY_NAME["ranks_model_on_one_node_only"].logs
    assert diagnose_ranks(logs) == diagnose_ranks(logs[::-1])


def test_nothing_is_known_of_nothing() -> None:
    assert diagnose_ranks(()) is None
    assert diagnose_ranks((RankLog(name="m-0.r0", lines=()),)) is None
