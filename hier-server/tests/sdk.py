"""Drives a server with LangGraph's Python SDK, over all that it can do.

    python hier-server/tests/sdk.py target/debug/examples/compat_server [--db URL]
"""

import asyncio
import sys
from pathlib import Path

from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.errors import ConflictError, NotFoundError

sys.path.insert(0, str(Path(__file__).parent / "clients"))
from serve import drive, served  # noqa: E402


async def names(stream) -> list[str]:
    return [part.event async for part in stream]


async def assistants(client) -> None:
    found = await client.assistants.search(graph_id="two", limit=5)
    assert [one["metadata"]["created_by"] for one in found] == ["system"], found
    made = await client.assistants.create("two", config={"configurable": {"k": 1}}, metadata={"m": 1}, name="mine")
    assert made["context"] == {"k": 1}
    same = await client.assistants.create("two", assistant_id=made["assistant_id"], if_exists="do_nothing")
    assert same["name"] == "mine"
    try:
        await client.assistants.create("two", assistant_id=made["assistant_id"])
        raise AssertionError("it exists")
    except ConflictError:
        pass
    changed = await client.assistants.update(made["assistant_id"], metadata={"z": 2}, name="other")
    assert changed["version"] == 2 and changed["metadata"] == {"m": 1, "z": 2, **changed["metadata"]}
    assert [one["version"] for one in await client.assistants.get_versions(made["assistant_id"])] == [2, 1]
    assert (await client.assistants.set_latest(made["assistant_id"], 1))["name"] == "mine"
    assert await client.assistants.count(graph_id="two") == 2
    drawn = await client.assistants.get_graph("sub", xray=True)
    assert "child:in1" in [node["id"] for node in drawn["nodes"]]
    schemas = await client.assistants.get_schemas(made["assistant_id"])
    assert "n" in schemas["state_schema"]["properties"], schemas
    sub = (await client.assistants.search(graph_id="sub"))[0]["assistant_id"]
    assert "child" in await client.assistants.get_subgraphs(sub, recurse=True)
    await client.assistants.delete(made["assistant_id"])
    try:
        await client.assistants.get(made["assistant_id"])
        raise AssertionError("it is gone")
    except NotFoundError:
        pass


async def threads(client) -> None:
    thread = await client.threads.create(metadata={"who": "me"})
    id = thread["thread_id"]
    assert thread["status"] == "idle" and thread["values"] is None
    await client.threads.update(id, metadata={"b": 2})
    assert (await client.threads.get(id))["metadata"] == {"who": "me", "b": 2}
    end = await client.runs.wait(id, "two", input={"n": 1})
    assert end == {"n": 4.0, "log": ["a", "b"]}, end
    state = await client.threads.get_state(id)
    assert state["values"] == end and state["next"] == []
    history = await client.threads.get_history(id)
    assert [one["metadata"]["step"] for one in history] == [2, 1, 0, -1]
    older = await client.threads.get_history(id, before=history[1]["checkpoint"])
    assert [one["metadata"]["step"] for one in older] == [0, -1]
    at = await client.threads.get_state(id, checkpoint=history[1]["checkpoint"])
    assert at["values"]["log"] == ["a"]
    made = await client.threads.update_state(id, {"n": 100}, as_node="a")
    assert made["checkpoint"]["thread_id"] == id
    assert (await client.runs.wait(id, "two", input=None))["n"] == 200
    copy = await client.threads.copy(id)
    assert (await client.threads.get_state(copy["thread_id"]))["values"]["n"] == 200
    assert await client.threads.count(metadata={"who": "me"}) == 2
    found = await client.threads.search(metadata={"who": "me"}, limit=1, sort_by="created_at", sort_order="asc")
    assert found[0]["thread_id"] == id
    made = await client.threads.create(
        graph_id="two",
        supersteps=[
            {"updates": [{"values": {"n": 5}, "as_node": "__input__"}]},
            {"updates": [{"values": {"n": 6, "log": ["x"]}, "as_node": "a"}]},
        ],
    )
    assert made["values"] == {"n": 6.0, "log": ["x"]}, made
    await client.threads.prune([copy["thread_id"]], strategy="delete")
    await client.threads.delete(id)
    try:
        await client.threads.get(id)
        raise AssertionError("it is gone")
    except NotFoundError:
        pass


async def runs(client) -> None:
    id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(id, "slow", input={"n": 0.3}, metadata={"a": 1})
    assert run["status"] == "pending" and run["metadata"]["a"] == 1
    second = await client.runs.create(id, "slow", input={"n": 0.01})
    try:
        await client.runs.create(id, "slow", input={"n": 0.01}, multitask_strategy="reject")
        raise AssertionError("the thread is busy")
    except ConflictError:
        pass
    await client.runs.join(id, second["run_id"])
    assert [one["status"] for one in await client.runs.list(id)] == ["success", "success"]
    long = await client.runs.create(id, "slow", input={"n": 60})
    await client.runs.cancel(id, long["run_id"], wait=True)
    assert (await client.runs.get(id, long["run_id"]))["status"] == "interrupted"
    await client.runs.delete(id, long["run_id"])
    delayed = await client.runs.create(id, "slow", input={"n": 0}, after_seconds=1)
    await client.runs.join(id, delayed["run_id"])
    batch = await client.runs.create_batch([{"assistant_id": "two", "input": {"n": n}} for n in range(3)])
    assert len(batch) == 3
    assert (await client.runs.wait(None, "two", input={"n": 1}))["n"] == 4
    failed = (await client.threads.create())["thread_id"]
    try:
        await client.runs.wait(failed, "boom", input={"n": 1})
        raise AssertionError("it fails")
    except Exception as error:
        assert "boom!" in str(error), error
    assert (await client.threads.get(failed))["status"] == "error"


async def streams(client) -> None:
    async def new() -> str:
        return (await client.threads.create())["thread_id"]

    told = await names(client.runs.stream(await new(), "two", input={"n": 1}, stream_mode="values"))
    assert told == ["metadata", "values", "values", "values"], told
    for mode in ["updates", "custom", "tasks", "checkpoints", "debug", "events", "messages", "messages-tuple"]:
        told = await names(client.runs.stream(await new(), "chat", input={"messages": [{"role": "user", "content": "hi"}]}, stream_mode=mode))
        assert told[0] == "metadata" and "error" not in told, (mode, told)
    told = await names(client.runs.stream(await new(), "sub", input={"n": 1}, stream_mode="updates", stream_subgraphs=True))
    assert any(name.startswith("updates|child:") for name in told), told

    id = await new()
    parts = [part async for part in client.runs.stream(id, "hitl", input={"n": 1}, stream_mode=["values", "updates"])]
    question = parts[-1].data["__interrupt__"][0]
    assert question["value"] == {"question": "ok?", "n": 2.0}, parts
    thread = await client.threads.get(id)
    assert thread["status"] == "interrupted"
    end = await client.runs.wait(id, "hitl", command={"resume": {question["id"]: "yes"}})
    assert end["log"] == ["a", "ask:yes", "b"], end

    id = await new()
    run = await client.runs.create(id, "two", input={"n": 1}, stream_mode=["values"], stream_resumable=True)
    all = [part async for part in client.runs.join_stream(id, run["run_id"], last_event_id="-1")]
    assert [part.event for part in all] == ["metadata", "values", "values", "values"], all
    rest = [part async for part in client.runs.join_stream(id, run["run_id"], last_event_id=all[1].id)]
    assert rest == all[2:], rest


async def store(client) -> None:
    await client.store.put_item(["u", "1"], "k", {"a": 1})
    await client.store.put_item(["u", "2"], "k", {"a": 2})
    assert (await client.store.get_item(["u", "1"], "k"))["value"] == {"a": 1}
    found = await client.store.search_items(["u"], filter={"a": {"$gt": 1}})
    assert [item["namespace"] for item in found["items"]] == [["u", "2"]]
    assert (await client.store.list_namespaces(["u"]))["namespaces"] == [["u", "1"], ["u", "2"]]
    await client.store.delete_item(["u", "1"], "k")
    assert await client.store.get_item(["u", "1"], "k") is None


async def protocol(client) -> None:
    for transport in ["sse", "websocket"]:
        async with client.threads.stream(assistant_id="hitl", transport=transport) as thread:
            await thread.run.start(input={"n": 1})
            seen = [snapshot async for snapshot in thread.values]
            assert seen and thread.interrupted, seen
            await thread.run.respond("yes")
            end = await thread.output
            assert end["log"] == ["a", "ask:yes", "b"], (transport, end)


def synchronous(url: str) -> None:
    client = get_sync_client(url=url)
    id = client.threads.create()["thread_id"]
    told = [part.event for part in client.runs.stream(id, "two", input={"n": 1}, stream_mode="updates")]
    assert told == ["metadata", "updates", "updates"], told


with served() as url:
    asyncio.run(drive([assistants, threads, runs, streams, store, protocol], get_client(url=url)))
    synchronous(url)
