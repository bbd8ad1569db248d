"""Types of single values in authored files, each with the form that it must have and with words for people.

Some kinds of field need a word to the reader of files (`core.config.shape`): `FROM_MAPPING` marks a tuple of
``(name, value)`` structs that is a mapping in the file; `AS_JSON` marks any JSON value, kept as compact JSON text in
the author's order, which the output of a model can depend on; `ZERO_AS_TEXT` marks a text for which the file may say
the number 0. So every value is immutable. The `description` of a type is what users read when a value does not fit.
"""

from typing import Annotated, TypeAlias

import msgspec

FROM_MAPPING = msgspec.Meta(extra={"authored": "mapping"})
AS_JSON = msgspec.Meta(extra={"authored": "json"})
ZERO_AS_TEXT = msgspec.Meta(extra={"authored": "zero"})

Id: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z",
        max_length=128,
        description="a name of at most 128 letters, digits, '.', '_' and '-' that begins with a letter or digit",
    ),
]
Duration: TypeAlias = Annotated[
    str,
    msgspec.Meta(pattern=r"\A[1-9][0-9]{0,8}[smhd]\Z", description="a duration such as 60s, 15m, 1h or 2d"),
]
"""``60s``, ``15m``, ``1h``, ``2d``."""
DurationOrZero: TypeAlias = Annotated[
    str,
    ZERO_AS_TEXT,
    msgspec.Meta(
        pattern=r"\A(0|(0|[1-9][0-9]{0,8})[smhd])\Z", description="a duration such as 5s or 1m, or 0 for no wait"
    ),
]
TimeLimit: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A([0-9]{1,6}-)?[0-9]{1,6}:[0-5][0-9]:[0-5][0-9]\Z",
        description="a time limit HH:MM:SS or D-HH:MM:SS such as 03:55:00",
    ),
]
AbsolutePath: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A(/(?!\.{1,2}(/|\Z))[^/\x00-\x1f\x7f]+)+\Z",
        description="an absolute path without '.', '..', doubled or final slashes, such as /models/writer",
    ),
]
VariableName: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z", description="the name of an environment variable such as HF_TOKEN"
    ),
]
Partitions: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]*(,[A-Za-z0-9][A-Za-z0-9._-]*)*\Z",
        max_length=1024,
        description="a partition, or several separated by commas",
    ),
]
OneLine: TypeAlias = Annotated[
    str,
    msgspec.Meta(pattern=r"\A[^\x00-\x1f\x7f]+\Z", description="a text of one line that is not empty"),
]
Word: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"\A[^\x00]*\Z", description="a text without U+0000, one word of a command")
]
VersionText: TypeAlias = Annotated[str, msgspec.Meta(max_length=64, description="a version in quotes such as '0.11.1'")]
JsonText: TypeAlias = Annotated[str, AS_JSON]
Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
NodeCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=65_536)]
"""More than any cluster of Slurm has: a slip of the pen must not become a plan that fills the memory."""
GpusOfNode: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1_024)]
GpuBudget: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_048_576)]
