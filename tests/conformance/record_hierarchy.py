"""Record what langgraph-hierarchies really does with a hierarchy scenario.

    python record_hierarchy.py FILE.json ...            adds/refreshes "expect" in place
    python record_hierarchy.py --random SEED N DIR      writes N random hierarchies with what happened

Needs: pip install langgraph-hierarchies==0.0.8 (which brings langgraph).
The format is described in FORMAT.md beside this file.
"""
import json, pathlib, random, sys
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.errors import GraphRecursionError, InvalidUpdateError
from langgraph_hierarchies import (AgentStuckError, BaseContext, BaseState, ReactGraph, SimpleGraph, SubagentPolicy,
                                   TodoGraph, create_base_state_defaults, finish_task)

REDUCERS = {"last": lambda _a, b: b, "merge": lambda a, b: {**a, **b}, "max": lambda a, b: max(a, b)}
TYPES = {"last": Any, "merge": dict, "max": int}


@tool
def echo(value: str) -> str:
    """Echo the value."""
    return f"echo:{value}"


@tool
def shout(value: str) -> str:
    """Echo the value in capitals."""
    return value.upper()


@tool
def note(key: str, value: str) -> str:
    """Pretend to note something down."""
    return f"noted {key}={value}"


TOOLS = {"echo": echo, "shout": shout, "note": note, "finish_task": finish_task}


class Exhausted(Exception):
    pass


class Scripted(BaseChatModel):
    replies: list
    prompts: list

    @property
    def _llm_type(self):
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **kw):
        self.prompts.append([plain(m) for m in messages])
        if not self.replies:
            raise Exhausted()
        r = self.replies.pop(0)
        calls = [{"name": c["name"], "args": c["args"], "id": c["id"], "type": "tool_call"} for c in r.get("calls", [])]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=r.get("content", ""), tool_calls=calls))])

    def bind_tools(self, tools, **kw):
        return self


def plain(m):
    out = {"role": {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}[m.type], "content": m.content}
    if getattr(m, "tool_calls", None):
        out["calls"] = [{"name": c["name"], "args": c["args"], "id": c["id"]} for c in m.tool_calls]
    if m.type == "tool":
        out["tool_call_id"] = m.tool_call_id
    return out


def build(scenario):
    ann = {k: Annotated[TYPES[v], REDUCERS[v]] for k, v in scenario.get("channels", {}).items()}
    schema = type("State", (), {})
    from typing_extensions import TypedDict
    schema = TypedDict("State", {**BaseState.__annotations__, **ann})

    def agent(name):
        spec = scenario["agents"][name]
        base = {"react": ReactGraph, "todo": TodoGraph, "simple": SimpleGraph}[spec["type"]]
        members = {"name": name, "description": spec.get("description", name)}
        if spec["type"] == "simple":
            def computation_node(self, state: dict, config: RunnableConfig, spec=spec) -> dict:
                out = {}
                for ch, how in spec["compute"].items():
                    out[ch] = f"{how['prefix']}({state.get(how['from']) or ''})" if isinstance(how, dict) and "prefix" in how else how
                return out
            members["computation_node"] = computation_node
        elif spec.get("report_into"):
            def empty_back(self, state, base=base, ch=spec["report_into"]):
                cmd = base.empty_back(self, state)
                cmd.update[ch] = cmd.update["current_agent_report"]
                return cmd
            members["empty_back"] = empty_back
        cls = type(name, (base,), members)
        kw = {"state_schema": schema, "context_schema": BaseContext,
              "subagent_policy": SubagentPolicy(**spec["policy"]) if spec.get("policy") is not None else None}
        if spec["type"] != "simple":
            kw["tools"] = [TOOLS[t] for t in spec.get("tools", [])]
            for k in ("max_iterations", "reports_to_supervisor"):
                if k in spec:
                    kw[k] = spec[k]
        g = cls(**kw)
        if spec["type"] != "simple":
            g.message_system, g.message_reasoning = spec.get("system", f"You are {name}."), spec.get("reasoning", "What now?")
        subs = {"compiled_subgraphs": [agent(a) for a in spec.get("subagents", [])]}
        if spec["type"] != "simple":
            subs["compiled_subgraphs_front"] = [agent(a) for a in spec.get("front", [])]
            subs["compiled_subgraphs_back"] = [agent(a) for a in spec.get("back", [])]
        if name == scenario["root"]:
            return g.compile_as_root(state_defaults=create_base_state_defaults(), **subs)
        return g.compile_graph(**subs)

    return agent(scenario["root"])


def run(scenario):
    root = build(scenario)
    model = Scripted(replies=list(scenario["script"]), prompts=[])
    state = {**create_base_state_defaults(), **scenario.get("input", {})}
    err, out = None, None
    try:
        out = root.invoke(state, config={"recursion_limit": scenario.get("recursion_limit", 200)}, context=BaseContext(model=model))
    except GraphRecursionError:
        err = {"kind": "recursion_limit"}
    except InvalidUpdateError:
        err = {"kind": "invalid_update"}
    except AgentStuckError as e:
        err = {"kind": "agent_stuck", "message": str(e), "reporting_agent": e.reporting_agent, "subject_agent": e.subject_agent}
    except Exhausted:
        err = {"kind": "script_exhausted"}
    final = None
    if out is not None:
        # not compared: messages and counters of the final state, where the reference answers a stale tool call once
        # more for every back stage and for the root itself; `prompts` already shows every message a model was given
        keep = ["current_agent_report", "is_finished", "todo_list", *scenario.get("channels", {})]
        final = {k: out.get(k) for k in keep}
        final["stack_depth"] = len(out.get("__subagent_stack__") or [])
    return json.loads(json.dumps({"prompts": model.prompts, "final": final, "error": err, "script_left": len(model.replies)}))


# ------------------------------------------------------------------ random hierarchies
def random_scenario(seed):
    rng = random.Random(seed)
    channels = {"artifact": "last", "facts": "merge", "score": "max"}
    agents, ids = {}, iter(range(1, 10_000))

    def policy(top=False):
        if top or rng.random() < 0.12:
            return None
        p = {"clear_messages": rng.random() < 0.85, "reset_iteration": rng.random() < 0.9,
             "merge_fields": rng.sample(["artifact", "facts", "score", "todo_list", "is_finished"], rng.randint(0, 3))}
        if rng.random() < 0.25:
            p["max_iterations"] = rng.randint(2, 30)
        return p

    def make(depth, top=False):
        name = f"{'desk' if top else 'agent'}{len(agents)}"
        kind = "react" if top and rng.random() < 0.5 else rng.choice(["react", "react", "todo", "simple"] if not top else ["todo"])
        if depth == 0 and rng.random() < 0.6:
            kind = "simple"
        agents[name] = spec = {"type": kind, "description": f"does {name}", "policy": policy(top)}
        if kind != "simple" and not top:  # the engine answers a stale tool call, and caps iterations, differently on purpose
            spec["policy"] = spec["policy"] or {"clear_messages": True}
            spec["policy"].pop("max_iterations", None)
        if kind == "simple":
            spec["compute"] = {"current_agent_report": f"{name} computed", "artifact": {"prefix": name, "from": rng.choice(["artifact", "current_agent_report"])}}
            if rng.random() < 0.4:
                spec["compute"]["facts"] = {name: rng.randint(0, 9)}
            if rng.random() < 0.3:
                spec["compute"]["score"] = rng.randint(0, 99)
            return name
        spec.update(system=f"You are {name}.", reasoning=f"Next, {name}?", tools=rng.sample(["echo", "shout", "note"], rng.randint(0, 3)),
                    max_iterations=rng.choice([50, 50, 12, 6]), reports_to_supervisor=not top)
        if rng.random() < 0.5:
            spec["report_into"] = "artifact"
        spec["subagents"] = [make(depth - 1) for _ in range(rng.randint(0, 3) if depth else 0)]
        if top:
            for where in ("front", "back"):
                stages = []
                for _ in range(rng.choice([0, 0, 1, 2])):
                    n = f"{where}{len(agents)}"
                    agents[n] = {"type": "simple", "description": n, "policy": None,
                                 "compute": {"artifact": {"prefix": n, "from": "artifact"}}}
                    stages.append(n)
                spec[where] = stages
        return name

    root = make(3, top=True)
    script = []

    def call(name, **args):
        return {"name": name, "args": args, "id": f"call-{next(ids)}"}

    def perform(name):
        spec = agents[name]
        if spec["type"] == "simple":
            return
        if spec["type"] == "todo":
            items = [f"{name}-item{i}" for i in range(rng.randint(1, 3))]
            script.append({"calls": [call("todo_write", items=items)]})
            if rng.random() < 0.3:
                script.append({"calls": [call("report_to_supervisor", report="too early")]})
            for it in items:
                script.append({"calls": [call("todo_complete", item=it)]})
        for sub in spec.get("subagents", []):
            for _ in range(rng.choice([0, 1, 1, 2])):
                task = {"task": f"do {sub}", "task_scope": rng.choice(["", f"only {sub}"]), "task_iterations": rng.choice([0, 0, 3, 20])}
                if rng.random() < 0.1:
                    script.append({"calls": [call(sub, **task), call(sub, **task)]})
                script.append({"calls": [call(sub, **task)]})
                perform(sub)
        for t in spec.get("tools", []):
            roll = rng.random()
            args = {"value": rng.choice("abc")} if t != "note" else {"key": "k", "value": "v"}
            if roll < 0.35:
                script.append({"calls": [call(t, **args)]})
            elif roll < 0.55:
                script.append({"calls": [call(t, **args), call(t, **args)]})
            elif roll < 0.62:
                script.append({"calls": [call(t, **args), call("report_to_supervisor", report="with another")]})
        if rng.random() < 0.12:
            script.append({"content": "let me think"})
        if rng.random() < 0.05:
            script.append({"calls": [call("no_such_tool", value="x")]})
        if rng.random() < 0.03:
            script.append({"calls": [call("raise_exception", reason="blocked", subject_agent=name)]})
            return
        if name == root:
            script.append({"calls": [call("finish_task", result=f"{name} finished")]})
        elif rng.random() < 0.15:
            script.append({"calls": [call("finish_task", result=f"{name} result")]})
        else:
            script.append({"calls": [call("report_to_supervisor", report=f"{name} report")]})

    perform(root)
    return {"name": f"hierarchy-{seed}", "kind": "hierarchy", "channels": channels, "root": root, "agents": agents,
            "script": script[:80], "recursion_limit": rng.choice([200, 200, 400, 30])}


def main():
    if sys.argv[1] == "--random":
        seed, n, where = int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
        where.mkdir(parents=True, exist_ok=True)
        kept = 0
        while kept < n:
            sc = random_scenario(seed)
            seed += 1
            try:
                one, two = run(sc), run(sc)
            except Exception as e:
                print("skipped", sc["name"], type(e).__name__, str(e)[:100], file=sys.stderr)
                continue
            if one != two:
                print("not deterministic, skipped", sc["name"], file=sys.stderr)
                continue
            sc["expect"] = one
            (where / f"{sc['name']}.json").write_text(json.dumps(sc) + "\n")
            kept += 1
        return
    for f in map(pathlib.Path, sys.argv[1:]):
        sc = json.loads(f.read_text())
        sc["expect"] = run(sc)
        f.write_text(json.dumps(sc) + "\n")


main()
