"""Drives a server with LangGraph's RemoteGraph: by itself, and as a node of a Python graph, with questions through it.

    python hier-server/tests/clients/remote_graph.py target/debug/examples/compat_server [--db URL]
"""

import asyncio
import operator
import sys
import uuid
from pathlib import Path
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.pregel.remote import RemoteException, RemoteGraph
from langgraph.types import Command, interrupt
from langgraph_sdk import get_client

sys.path.insert(0, str(Path(__file__).parent))
from serve import drive, served  # noqa: E402


def thread() -> dict:
    return {"configurable": {"thread_id": str(uuid.uuid4())}}


class Line(TypedDict, total=False):
    n: float
    log: Annotated[list[str], operator.add]


async def alone(url: str) -> None:
    graph = RemoteGraph("two", url=url)
    assert graph.invoke({"n": 1}) == {"n": 4.0, "log": ["a", "b"]}
    assert await graph.ainvoke({"n": 1}) == {"n": 4.0, "log": ["a", "b"]}
    updates = [update async for update in graph.astream({"n": 1}, stream_mode="updates")]
    assert updates == [{"a": {"n": 2.0, "log": ["a"]}}, {"b": {"n": 4.0, "log": ["b"]}}], updates
    modes = [chunk[0] for chunk in graph.stream({"n": 1}, stream_mode=["values", "custom"])]
    assert modes == ["values", "custom", "values", "values"], modes
    drawn = graph.get_graph()
    assert set(drawn.nodes) == {"__start__", "a", "b", "__end__"}, drawn.nodes
    inner = [namespace for namespace, _ in RemoteGraph("sub", url=url).stream({"n": 1}, subgraphs=True)]
    assert any(namespace and namespace[0].startswith("child:") for namespace in inner), inner
    try:
        RemoteGraph("boom", url=url).invoke({"n": 1})
        raise AssertionError("it fails")
    except RemoteException as error:
        assert "boom!" in str(error), error


async def states(url: str) -> None:
    graph, config = RemoteGraph("hitl", url=url), thread()
    first = await graph.ainvoke({"n": 1}, config)
    question = first["__interrupt__"][0]
    assert question["value"]["question"] == "ok?", first
    state = await graph.aget_state(config)
    assert state.next == ("ask",) and state.tasks[0].interrupts[0].id == question["id"], state
    assert graph.get_state(config).next == ("ask",)
    end = await graph.ainvoke(Command(resume={question["id"]: "yes"}), config)
    assert end["log"] == ["a", "ask:yes", "b"], end
    history = [state async for state in graph.aget_state_history(config)]
    assert [state.metadata["step"] for state in history] == [3, 2, 1, 0, -1]
    assert [state.next for state in graph.get_state_history(config, limit=2)] == [(), ("b",)]
    before = [state.metadata["step"] for state in graph.get_state_history(config, before=history[2].config)]
    assert before == [0, -1], before
    await graph.aupdate_state(config, {"n": 7}, as_node="b")
    assert (await graph.aget_state(config)).values["n"] == 7
    # A fork of the past.
    forked = await graph.ainvoke(None, history[1].config)
    assert forked["log"] == ["a", "ask:yes", "b"], forked


async def breakpoints(url: str) -> None:
    graph, config = RemoteGraph("two", url=url), thread()
    stopped = await graph.ainvoke({"n": 1}, config, interrupt_before=["b"])
    assert stopped["log"] == ["a"], stopped
    assert (await graph.aget_state(config)).next == ("b",)
    assert (await graph.ainvoke(None, config))["log"] == ["a", "b"]


def around(remote: RemoteGraph):
    """A graph of Python with a remote one among its nodes."""

    def before(state: Line) -> Line:
        return {"n": state["n"] + 0.5, "log": ["before"]}

    graph = StateGraph(Line)
    graph.add_node("before", before)
    graph.add_node("remote", remote)
    graph.add_node("after", lambda _: {"log": ["after"]})
    graph.add_edge(START, "before").add_edge("before", "remote").add_edge("remote", "after").add_edge("after", END)
    return graph.compile(checkpointer=InMemorySaver())


async def as_node(url: str) -> None:
    graph, config = around(RemoteGraph("two", url=url)), thread()
    end = await graph.ainvoke({"n": 0.5}, config)
    assert end["n"] == 4.0 and end["log"][-1] == "after" and "b" in end["log"], end
    graph, config = around(RemoteGraph("sub", url=url)), thread()
    namespaces = [namespace async for namespace, _ in graph.astream({"n": 1}, config, subgraphs=True, stream_mode="updates")]
    assert any(len(namespace) >= 1 and namespace[0].startswith("remote:") for namespace in namespaces), namespaces


async def asked_within(url: str) -> None:
    """What the remote graph asks is asked by the graph around it. An answer by the question's id reaches it. RemoteGraph does not send
    an answer without an id: the remote graph asks the same question again, and runs nothing twice."""
    graph, config = around(RemoteGraph("hitl", url=url)), thread()
    first = await graph.ainvoke({"n": 0.5}, config)
    question = first["__interrupt__"][0]
    assert question.value == {"question": "ok?", "n": 2.0}, first
    assert (await graph.aget_state(config)).next == ("remote",)
    again = await graph.ainvoke(Command(resume="yes"), config)
    assert again["__interrupt__"] == [question], again
    remote = await get_client(url=url).threads.get_state(config["configurable"]["thread_id"])
    assert remote["values"]["log"] == ["before", "a"], remote
    end = await graph.ainvoke(Command(resume={question.id: "yes"}), config)
    assert end["n"] == 4.0 and end["log"][-2:] == ["b", "after"] and "ask:yes" in end["log"], end


def passing(url: str, id: str):
    """A node that asks what the remote graph asks, and passes the answer on."""
    remote, client, config = RemoteGraph("hitl", url=url), get_client(url=url), {"configurable": {"thread_id": id}}

    async def node(state: Line) -> Line:
        open = (await client.threads.get(id)).get("interrupts") or {}
        asked = [question for questions in open.values() for question in questions]
        if not asked:
            end = await remote.ainvoke(state, config)
            asked = end.get("__interrupt__", [])
        for question in asked:
            end = await remote.ainvoke(Command(resume={question["id"]: interrupt(question["value"])}), config)
        return {"log": end["log"]}

    return node


async def asked_through(url: str) -> None:
    """A remote graph's question and one of Python's at once, each with its answer; and then a second time."""
    inner = (await get_client(url=url).threads.create())["thread_id"]
    graph = StateGraph(Line)
    graph.add_node("local", lambda _: {"log": [f"local:{interrupt('local?')}"]})
    graph.add_node("remote", passing(url, inner))
    graph.add_edge(START, "local").add_edge(START, "remote").add_edge("local", END).add_edge("remote", END)
    compiled, config = graph.compile(checkpointer=InMemorySaver()), thread()
    for round in ["first", "second"]:
        first = await compiled.ainvoke({"n": 1}, config)
        asked = {question.id: question.value for question in first["__interrupt__"]}
        assert len(asked) == 2, first
        answers = {id: round if value == "local?" else f"remote {round}" for id, value in asked.items()}
        end = await compiled.ainvoke(Command(resume=answers), config)
        assert f"local:{round}" in end["log"] and f"ask:remote {round}" in end["log"], end
    assert (await get_client(url=url).threads.get(inner))["status"] == "idle"


async def events(url: str) -> None:
    """The second protocol."""
    graph = RemoteGraph("two", url=url)
    async with await graph.astream_events({"n": 1}, thread(), version="v3") as stream:
        assert (await stream.output())["log"] == ["a", "b"]


def main() -> None:
    with served() as url:
        asyncio.run(drive([alone, states, breakpoints, as_node, asked_within, asked_through, events], url))


main()
