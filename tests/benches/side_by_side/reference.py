"""The workloads of the side-by-side on the Python reference. Prints one JSON object: workload -> seconds a run, best of N."""
import json, operator, sys, time
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send


class Counter(TypedDict):
    count: int
    bulk: Any
    items: int
    total: Annotated[int, operator.add]


def best(run, times):
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def count(state):
    return {"count": state["count"] + 1}


def loop(node_runs):
    graph = StateGraph(Counter)
    for name in ("first", "second", "third"):
        graph.add_node(name, count)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", "third")
    graph.add_conditional_edges("third", lambda s: "first" if s["count"] < node_runs else END, ["first", END])
    graph = graph.compile()
    return lambda: graph.invoke({"count": 0}, {"recursion_limit": 2 * node_runs})


def steps(bulk):
    graph = StateGraph(Counter)
    graph.add_node("step", count)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda s: "step" if s["count"] < 999 else END, ["step", END])
    graph = graph.compile()
    return lambda: graph.invoke({"count": 0, "bulk": bulk}, {"recursion_limit": 2000})


def fan_out():
    graph = StateGraph(Counter)
    graph.add_node("seed", lambda s: None)
    graph.add_node("gather", lambda s: None)
    names = [f"n{i:02}" for i in range(100)]
    for name in names:
        graph.add_node(name, lambda s: {"total": 1})
        graph.add_edge("seed", name)
    graph.add_edge(names, "gather")
    graph.add_edge(START, "seed")
    graph = graph.compile()
    return lambda: graph.invoke({"count": 0})


def sends(items, work):
    graph = StateGraph(Counter)
    graph.add_node("add", work)
    graph.add_conditional_edges(START, lambda s: [Send("add", i) for i in range(s["items"])], ["add"])
    graph = graph.compile()
    return lambda: graph.invoke({"count": 0, "items": items})


def wait(_):
    time.sleep(0.020)
    return {"total": 1}


def compute(_):
    until = time.perf_counter() + 0.010
    while time.perf_counter() < until:
        pass
    return {"total": 1}


print(json.dumps({
    "loop": best(loop(999), 5),
    "fan_out": best(fan_out(), 5),
    "sends": best(sends(1000, lambda item: {"total": item}), 3),
    "steps_tiny": best(steps(None), 5),
    "steps_100k": best(steps(list(range(25_000))), 5),
    "wait": best(sends(16, wait), 5),
    "compute": best(sends(8, compute), 5),
}))
sys.stdout.flush()
