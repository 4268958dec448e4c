"""A server of fastmcp: the client of hier calls it."""

from fastmcp import FastMCP

server = FastMCP("peer")


@server.tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool
def fails() -> str:
    """Fails."""
    raise ValueError("out of paper")


@server.resource("memo://one")
def memo() -> str:
    """A memo."""
    return "remember the milk"


if __name__ == "__main__":
    server.run(transport="stdio", show_banner=False)
