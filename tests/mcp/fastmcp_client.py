"""The client of fastmcp calls the graphs of hier: python fastmcp_client.py URL, and a program over stdio."""

import asyncio
import sys

from fastmcp import Client


async def main(url: str, program: str) -> None:
    async with Client(url) as client:
        names = sorted(tool.name for tool in await client.list_tools())
        assert "test_simple_text" in names, names
        result = await client.call_tool("test_simple_text", {})
        assert "simple text" in result.content[0].text, result
        result = await client.call_tool("test_image_content", {})
        assert result.content[0].type == "image", result
        failed = await client.call_tool("test_error_handling", {}, raise_on_error=False)
        assert failed.is_error and "intentionally" in failed.content[0].text, failed

    asked = []

    async def answer(message, response_type, params, context):
        asked.append(message)
        return {"nights": 3}

    config = {"mcpServers": {"trips": {"command": program, "args": ["--serve"]}}}
    async with Client(config, elicitation_handler=answer) as client:
        result = await client.call_tool("book_trip", {"place": "Rome"})
        assert "3 nights in Rome" in str(result.structured_content or result.content), result
        assert asked == ["How many nights in Rome?"], asked
    print("fastmcp's client passed")


asyncio.run(main(sys.argv[1], sys.argv[2]))
