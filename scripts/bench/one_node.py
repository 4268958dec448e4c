"""A graph of one node, for LangGraph's development server."""

from typing import TypedDict

from langgraph.graph import END, START, StateGraph


class Line(TypedDict):
    n: int


async def add(line: Line) -> Line:
    return {"n": line["n"] + 1}


one = StateGraph(Line).add_node(add).add_edge(START, "add").add_edge("add", END).compile()
