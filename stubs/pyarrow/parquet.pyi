from typing import Any

from pyarrow import Schema

class FileMetaData:
    num_rows: int

def read_metadata(where: str) -> FileMetaData: ...
def read_schema(where: str) -> Schema: ...
def __getattr__(name: str) -> Any: ...
