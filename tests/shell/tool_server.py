"""An MCP server with one tool, for the test with the real Data Designer."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("tools")


@server.tool()
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


if __name__ == "__main__":
    server.run()
