"""What the parser of answers reports: where a message begins and ends, and its body when that must be unpacked."""

from typing_extensions import override


class Sink:
    """Counts messages."""

    __slots__ = ("begins", "ends")

    def __init__(self) -> None:
        self.begins = 0
        self.ends = 0

    def passed_on(self, data: bytes) -> bytes:
        """What goes to the client of these bytes, which the parser has just read: all of them."""
        return data

    def on_message_begin(self) -> None:
        """Called by the parser."""
        self.begins += 1

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self.ends += 1


class UnpackingSink(Sink):
    """Keeps the body without its chunks, for clients that do not know them."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []

    def on_body(self, data: bytes) -> None:
        """Called by the parser."""
        self.pieces.append(data)

    @override
    def passed_on(self, data: bytes) -> bytes:
        """Their content."""
        content, self.pieces = b"".join(self.pieces), []
        return content
