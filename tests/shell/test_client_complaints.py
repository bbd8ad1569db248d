"""Data Designer's printed complaints, taken apart. What it prints today is checked with the real one elsewhere."""

import os

import pytest

from shell.client.complaints import Complaint, complaints, listen

PRINTED = """
  🔎 Identified 3 validation issues in your Data Designer column definitions

 ──────────────────────────────── Column: the text ────────────────────────────────

  🛑 ERROR | INVALID_REFERENCE

  The prompt template for 'the text' references a column
  that does not exist: 'topic'.

 ──────────────────────────────────────────────────────────────────────────────────

 ───────────────────────────────── Column: b ──────────────────────────────────────

  ⚠️ WARNING | PROMPT_WITHOUT_REFERENCES

  The prompt of 'b' refers to nothing.

 ──────────────────────────────────────────────────────────────────────────────────

 ──────────────────────────────────────────────────────────────────────────────────

  🛑 ERROR | ALL_COLUMNS_DROPPED

  All columns are dropped.

 ──────────────────────────────────────────────────────────────────────────────────
"""


def test_errors_with_their_columns_and_no_warnings() -> None:
    words = "The prompt template for 'the text' references a column that does not exist: 'topic'."
    assert list(complaints(PRINTED)) == [
        Complaint("the text", "invalid reference", words),
        Complaint(None, "all columns dropped", "All columns are dropped."),
    ]


@pytest.mark.parametrize("printed", ["", "some other words\n", "─────\n", "ERROR without a kind\n"])
def test_anything_else_is_no_complaint(printed: str) -> None:
    assert list(complaints(printed)) == []


@pytest.mark.parametrize("columns", [None, "70"])
def test_what_is_printed_is_heard_and_goes_to_the_log(
    columns: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)

    def work() -> None:
        print("─" * int(os.environ["COLUMNS"]))
        raise ValueError("no")

    raised, heard = listen(work)
    assert isinstance(raised, ValueError)
    assert heard == "─" * 1000 + "\n"
    assert capsys.readouterr().out == "───\n"
    assert os.environ.get("COLUMNS") == columns
