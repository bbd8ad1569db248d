"""Short programs that are correct in their language, for requests that want code. Standard library only."""

import random

_PYTHON = '''def {name}(values: list[int]) -> int:
    """Return the {noun} of some values."""
    total = 0
    for value in values:
        total += value
    return total
'''
_SQL = "SELECT\n    {name},\n    COUNT(*) AS {noun}\nFROM {table}\nGROUP BY {name};\n"
_C_LIKE = "int {name}(int value) {{\n    return value + 1;\n}}\n"
_COBOL = """\
       IDENTIFICATION DIVISION.
       PROGRAM-ID. {name}.
       PROCEDURE DIVISION.
           STOP RUN.
"""
_PROGRAMS = {
    "python": _PYTHON,
    "sql": _SQL,
    "bash": '#!/bin/bash\nset -eu\n{name}="{noun}"\necho "${name}"\n',
    "c": _C_LIKE,
    "cpp": _C_LIKE,
    "cobol": _COBOL,
    "csharp": "public static class Program {{\n    public static int {name}(int value) => value + 1;\n}}\n",
    "go": "package main\n\nfunc {name}(value int) int {{\n\treturn value + 1\n}}\n",
    "java": "class Program {{\n    static int {name}(int value) {{\n        return value + 1;\n    }}\n}}\n",
    "javascript": "function {name}(value) {{\n  return value + 1;\n}}\n",
    "kotlin": "fun {name}(value: Int): Int = value + 1\n",
    "ruby": "def {name}(value)\n  value + 1\nend\n",
    "rust": "fn {name}(value: i32) -> i32 {{\n    value + 1\n}}\n",
    "scala": "def {name}(value: Int): Int = value + 1\n",
    "swift": "func {name}(value: Int) -> Int {{\n    return value + 1\n}}\n",
    "typescript": "function {name}(value: number): number {{\n  return value + 1;\n}}\n",
    "html": "<p>{name} {noun}</p>\n",
    "yaml": "{name}: {noun}\n",
    "xml": "<{name}>{noun}</{name}>\n",
}


def program(language: str, chance: random.Random) -> str:
    """A program in the language; a line of text in one that is not known."""
    template = _PROGRAMS.get(language.lower().split(":")[0], "{name} {noun}\n")
    name, noun, table = (chance.choice(choices) for choices in (_NAMES, _NOUNS, _TABLES))
    return template.format(name=name, noun=noun, table=table)


_NAMES = ("category", "region", "owner", "status", "title", "color", "city")
_NOUNS = ("amount", "score", "balance", "volume", "weight")
_TABLES = ("orders", "visits", "invoices", "shipments")
