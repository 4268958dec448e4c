"""Drop scenarios whose expectation depends on a deliberate difference (see the end of FORMAT.md)."""
import json, pathlib, sys


def completes_what_is_not_on_its_list(hierarchy):
    """A scripted model that is asked out of turn completes the item of another agent: here it is refused, with what is open."""
    for prompt in hierarchy["expect"].get("prompts", []):
        agent = next((m["content"][len("You are "):-1] for m in prompt if m["role"] == "system"), "")
        items = {c["id"]: c["args"]["item"] for m in prompt for c in m.get("calls", []) if c["name"] == "todo_complete"}
        for m in prompt:
            item = items.get(m.get("tool_call_id"))
            if item is not None and m["content"].startswith("Completed") and not item.startswith(f"{agent}-"):
                return True
    return False


n = k = 0
for f in [p for d in sys.argv[1:] for p in pathlib.Path(d).glob("*.json")]:
    s = json.loads(f.read_text()); n += 1
    if s.get("kind") == "hierarchy":
        if completes_what_is_not_on_its_list(s):
            f.unlink(); k += 1
        continue
    subs = {x for x, spec in s["nodes"].items() if "graph" in spec}
    bad = None
    failed = answered = False
    if "ephemeral" in s["channels"].values() and any("state" in c for c in s["calls"]):
        bad = "live read of ephemeral keys"
    for call, got in zip(s["calls"], s["expect"].get("calls", [])):
        if failed and (call.get("invoke", 0) is None or "resume" in call or "state" in call):
            bad = "goes on after a failed apply"
        if (got.get("error") or {}).get("kind") == "invalid_update" and "steps" in got:
            failed = True
        if answered and "resume" in call:
            bad = "answers what has its answer"
        if "steps" in got:
            answered = "resume" in call and got.get("error") is not None
        if call.get("invoke"):
            failed = failed and (got.get("error") or {}).get("kind") == "invalid_update"
        for st in got.get("steps", []):
            ran = {u[0] for u in st["updates"]} - {"__metadata__"}
            if ran & subs and len([u for u in st["updates"] if u[0] != "__metadata__"]) > 1:
                bad = "subgraph beside a sibling"
    if bad:
        f.unlink(); k += 1
print(f"{n} read, {k} dropped")
