"""The first reading of an authored file: strict, total, with lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.raw import parse
from core.config.scalars import plain
from core.config.tree import DEEPEST, Leaf, Parsed, lines_of
from core.config.words import as_builtins
from core.report import as_text, report

YAML_CASES = {
    "anchor": ("a: &x 1\n", [("forbidden-syntax", "a", 1)]),
    "alias": ("a: &x 1\nb: *x\n", [("forbidden-syntax", "a", 1), ("forbidden-syntax", "b", 2)]),
    "alias of nothing": ("a: *x\n", [("forbidden-syntax", "a", 1)]),
    "anchor on a mapping": ("a: &x\n  b: 1\n", [("forbidden-syntax", "a", 1)]),
    "merge key": ("a:\n  <<: {b: 1}\n  c: 2\n", [("forbidden-syntax", "a", 2)]),
    "merge key in quotes is a key": ("'<<': 1\n", []),
    "tag": ("a: !!str 1\n", [("forbidden-syntax", "a", 1)]),
    "tag of python": ("a: !!python/object:os.system x\n", [("forbidden-syntax", "a", 1)]),
    "tag on a list": ("a: !mine [1]\n", [("forbidden-syntax", "a", 1)]),
    "two documents": ("a: 1\n---\nb: 2\n", [("forbidden-syntax", "", 2)]),
    "one document with marks": ("---\na: 1\n...\n", []),
    "duplicate key": ("a: 1\nb: 2\na: 3\n", [("duplicate-key", "a", 3)]),
    "duplicate key below": ("a:\n- b: 1\n  b: 2\n", [("duplicate-key", "a[0].b", 3)]),
    "duplicate key in other spelling": ("a: 1\n'a': 2\n", [("duplicate-key", "a", 2)]),
    "number as key": ("1: x\n", [("malformed", "", 1)]),
    "null as key": ("~: x\n", [("malformed", "", 1)]),
    "true as key": ("a: {true: x}\n", [("malformed", "a", 1)]),
    "yes is a text": ("yes: no\n", []),
    "list as key": ("? [a]\n: 1\n", [("forbidden-syntax", "", 1)]),
    "not a number": ("a: .nan\nb: -.inf\n", [("malformed", "a", 1), ("malformed", "b", 2)]),
    "number too large": ("a: 99999999999999999999\nb: 1e999\n", [("malformed", "a", 1), ("malformed", "b", 2)]),
    "number just too large": (
        "a: 18446744073709551616\nb: -9223372036854775809\n",
        [("malformed", "a", 1), ("malformed", "b", 2)],
    ),
    "number of many digits": ("a: " + "9" * 10_000 + "\n", [("malformed", "a", 1)]),
    "half a character": ('a: "\\ud83d"\n', [("malformed", "a", 1)]),
    "tab as indentation": ("a:\n\tb: 1\n", [("bad-syntax", "", 2)]),
    "bad indentation": ("a:\n  b: 1\n c: 2\n", [("bad-syntax", "", 3)]),
    "two colons": ("a: b: c\n", [("bad-syntax", "", 1)]),
    "open quotes": ('a: 1\nb: "x\n', [("bad-syntax", "", 3)]),
    "open list": ("a: [1, 2\nb: 3\n", [("bad-syntax", "", 2)]),
    "unknown character": ('a: "\\U00110000"\n', [("bad-syntax", "", 1)]),
    "no character": ("a: 1\nb: \x00\n", [("bad-syntax", "", 2)]),
    "all at once": (
        "a: &x 1\nb: *x\nc: {d: 1, d: 2}\n3: !t x\n",
        [
            ("forbidden-syntax", "a", 1),
            ("forbidden-syntax", "b", 2),
            ("duplicate-key", "c.d", 3),
            ("malformed", "", 4),
            ("forbidden-syntax", "", 4),
        ],
    ),
    "before the syntax breaks": ("a: &x 1\nb: [\n", [("forbidden-syntax", "a", 1), ("bad-syntax", "", 3)]),
}
JSON_CASES = {
    "duplicate key": ('{"a": 1,\n"a": 2}', [("duplicate-key", "a", 2)]),
    "duplicate key in other spelling": ('{"a": 1,\n"\\u0061": 2}', [("duplicate-key", "a", 2)]),
    "not a number": ('{"a": NaN,\n"b": -Infinity}', [("malformed", "a", 1), ("malformed", "b", 2)]),
    "number too large": ('{"a": 99999999999999999999}', [("malformed", "a", 1)]),
    "half a character": ('{"a": "\\ud83d"}', [("malformed", "a", 1)]),
    "line break in a text": ('{"a": "x\ny"}', [("malformed", "a", 1)]),
    "comma at the end": ('{"a": [1,\n]}', [("bad-syntax", "", 2)]),
    "single quotes": ("{'a': 1}", [("bad-syntax", "", 1)]),
    "comment": ('{\n// no\n"a": 1}', [("bad-syntax", "", 2)]),
    "two values": ('{"a": 1}\n{}', [("bad-syntax", "", 2)]),
    "leading zero": ('{"a": 01}', [("bad-syntax", "", 1)]),
    "missing colon": ('{"a" 1}', [("bad-syntax", "", 1)]),
    "key without quotes": ("{a: 1}", [("bad-syntax", "", 1)]),
    "wrong bracket": ('{"a": [1}', [("bad-syntax", "", 1)]),
    "nothing": ("", [("bad-syntax", "", 1)]),
    "open text": ('{"a": "b', [("bad-syntax", "", 1)]),
    "open list": ('{"a":\n[', [("bad-syntax", "", 2)]),
    "before the syntax breaks": (
        '{"a": NaN, "a": 1,\n]',
        [("malformed", "a", 1), ("duplicate-key", "a", 1), ("bad-syntax", "", 2)],
    ),
}


def codes(parsed: Parsed) -> list[tuple[str, str, int | None]]:
    return [(said.code, said.path, said.line) for said in map(report, parsed.problems)]


@pytest.mark.parametrize("name", YAML_CASES)
def test_yaml(name: str) -> None:
    text, expected = YAML_CASES[name]
    assert codes(parse("a.yaml", text.encode())) == expected


@pytest.mark.parametrize("name", JSON_CASES)
def test_json(name: str) -> None:
    text, expected = JSON_CASES[name]
    assert codes(parse("a.json", text.encode())) == expected


@pytest.mark.parametrize("source", ["a.yaml", "a.json", "-"])
@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a": '])
def test_nesting_has_an_end(source: str, opening: str) -> None:
    parsed = parse(source, opening.encode() * 50_000)
    assert [said.code for said in map(report, parsed.problems)] == ["bad-syntax"]
    assert "nested more than" in as_text(parsed.problems[0])
    deep = DEEPEST - 1
    assert not parse(source, b"[" * deep + b'"a"' + b"]" * deep).problems


def test_bytes_that_are_no_text() -> None:
    parsed = parse("a.yaml", b"a: 1\nb: \xff\n")
    assert codes(parsed) == [("bad-syntax", "", 2)]
    assert "0xff" in as_text(parsed.problems[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: " + "9" * 50, "found a number of 50 characters"),
        ("a: 99999999999999999999", "found 99999999999999999999"),
        ("a: \x07", "the character U+0007 is not allowed"),
        ("a:\n\tb: 1", "a tab cannot indent"),
        ("a: b: c", "put the value in quotes"),
    ],
)
def test_words_about_syntax(text: str, words: str) -> None:
    assert words in as_text(parse("a.yaml", text.encode()).problems[0])


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert as_builtins(parse("a.json", b"\xef\xbb\xbf{}").root) == {}
    assert as_builtins(parse("a.yaml", b"\xef\xbb\xbfa: 1").root) == {"a": 1}


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("run.yaml", '{"a": 1, }', {"a": 1}),
        ("run.YML", "a: 1", {"a": 1}),
        ("-", '\n {"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        ("-", "{a: 1}", {"a": 1}),
        ("/dev/stdin", "a: 1", {"a": 1}),
        ("run.JSON", '{\n\t"a": [1,\t2]\n}', {"a": [1, 2]}),
        ("run.yaml", '"\\ud83d\\ude00"', "😀"),
        ("run.yaml", "", None),
        ("run.yaml", "# only a comment\n", None),
        ("run.yaml", "a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
    ],
)
def test_which_language(source: str, text: str, expected: object) -> None:
    parsed = parse(source, text.encode())
    assert parsed.problems == ()
    assert as_builtins(parsed.root) == expected


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("12:00:00", "12:00:00"),
        ("1:30", "1:30"),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("=", "="),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("+3", 3),
        ("-0", 0),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.2.3", "1.2.3"),
        ("٣", "٣"),
    ],
)
def test_words_mean_what_yaml_1_2_says(word: str, value: object) -> None:
    leaf = plain(word, 1)
    assert isinstance(leaf, Leaf)
    assert (type(leaf.value), leaf.value) == (type(value), value)


@given(st.sampled_from(["a.yaml", "a.json", "-"]), st.binary(max_size=200))
def test_any_bytes_give_a_tree_or_problems(source: str, content: bytes) -> None:
    parsed = parse(source, content)
    assert parsed.whole or parsed.problems
    assert all(as_text(problem) for problem in parsed.problems)


MARKS = st.sampled_from(
    [
        *"{}[]:,&*!|>%@`'\"#?-\\ \t\n~<.0123456789aeE+",
        "\r\n",
        ": ",
        "- ",
        "? ",
        "<<: ",
        "---\n",
        "...\n",
        "!!",
        "\\u",
        "%YAML ",
        "\\ud8",
        "${",
        "null",
        "true",
        "NaN",
        "é",
        "😀",
        "\u2028",
        "\x85",
        "\ufeff",
    ]
)


@given(st.sampled_from(["a.yaml", "a.json", "-"]), st.lists(MARKS, max_size=40).map("".join))
def test_any_marks_give_a_tree_or_problems(source: str, text: str) -> None:
    parsed = parse(source, text.encode())
    assert parsed.whole or parsed.problems
    assert all(as_text(problem) for problem in parsed.problems)
    assert list(lines_of(parsed.root)) == sorted(lines_of(parsed.root), key=lambda entry: entry.path)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_json_means_what_the_standard_decoder_says(value: object, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    parsed = parse("a.json", text.encode())
    assert parsed.problems == ()
    assert as_builtins(parsed.root) == json.loads(text)


@given(VALUES)
def test_json_of_ascii_is_yaml_with_the_same_meaning(value: object) -> None:
    text = json.dumps(value, indent=2)
    in_yaml = parse("a.yaml", text.encode())
    assert in_yaml.problems == ()
    assert as_builtins(in_yaml.root) == json.loads(text)


@pytest.mark.parametrize("source", ["a.json", "a.yaml"])
@given(value=st.dictionaries(st.from_regex(r"\A[a-z]{1,5}\Z"), VALUES, max_size=5))
def test_every_key_has_its_line(source: str, value: dict[str, object]) -> None:
    text = json.dumps(value, indent=2)
    starts = {line.split('"')[1]: number for number, line in enumerate(text.splitlines(), 1) if line.startswith('  "')}
    found = {entry.path: entry.line for entry in lines_of(parse(source, text.encode()).root)}
    assert {key: found[key] for key in value} == starts
