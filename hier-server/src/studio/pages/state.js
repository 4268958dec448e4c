// The state at a checkpoint: its values, their changes, the results of its tasks, and the actions on it.

import { attempt, dialog, h, moment, shortId } from "./dom.js";
import { TASK } from "./live.js";
import { get, path } from "./api.js";
import { changes, diff } from "./diff.js";
import { strict } from "./form.js";
import { Tree } from "./json.js";

export class State {
  // `act` has the actions of the page: replay, edit, fork.
  constructor({ act }) {
    this.act = act;
    this.tree = new Tree("State");
    this.only = h("input", { type: "checkbox", id: "only", onchange: () => this.paint() });
    this.base = h("select", { "aria-label": "Compare with", onchange: () => this.compare(this.base.value) });
    this.inside = h("select", { "aria-label": "Subgraph", onchange: () => attempt(() => this.look(this.inside.value)) });
    this.head = h("div", { class: "head" });
    this.tasks = h("div", { class: "tasks" });
    this.count = h("span", { class: "changes" });
    this.buttons = h("div", { class: "actions" });
    this.element = h("div", { class: "state" }, h("div", { class: "line" }, this.head, this.inside), this.buttons,
      h("div", { class: "compare" },
        h("label", { class: "check" }, this.only, "only changes"), h("span", {}, "since"), this.base, this.count),
      this.tree.element, this.tasks);
    this.clear();
  }

  clear() {
    this.checkpoint = null;
    this.before = null;
    this.pinned = null;
    this.bases = new Map();
    this.known = -1;
    this.places(new Set());
    this.tree.show({}, null, false);
    this.head.replaceChildren(h("span", { class: "empty" }, "No state yet."));
    this.tasks.replaceChildren();
    this.buttons.replaceChildren();
    this.element.classList.add("none");
  }

  static read(thread, id, namespace = "") {
    return get(`${path`/studio/api/threads/${thread}/checkpoints/${id}`}?${new URLSearchParams({ ns: namespace })}`);
  }

  // The known subgraphs with their own checkpoints.
  places(namespaces) {
    if (namespaces.size === this.known) return;
    this.known = namespaces.size;
    const at = this.inside.value;
    const name = (namespace) => namespace.split("|").map((level) => level.replace(TASK, (id) => ` ${shortId(id.slice(1))}`)).join(" / ");
    this.inside.replaceChildren(h("option", { value: "" }, "the whole graph"), ...[...namespaces].map((one) => h("option", { value: one }, name(one))));
    this.inside.value = namespaces.has(at) ? at : "";
    this.inside.hidden = namespaces.size === 0;
  }

  // Shows the newest state of a subgraph, or of the root graph.
  async look(namespace) {
    this.element.classList.toggle("inside", namespace !== "");
    if (namespace === "") return this.paint();
    const found = await State.read(this.thread, "latest", namespace);
    if (this.inside.value !== namespace) return;
    this.paintHead(found ?? { step: "—", source: "no checkpoints of its own", id: "", at: "" });
    this.tree.show(found?.values ?? {}, null, false);
    this.paintTasks(found?.tasks ?? []);
  }

  // Shows a checkpoint. `can` is true if the program is available.
  async show(thread, checkpoint, can) {
    if (this.checkpoint) this.remember(this.checkpoint);
    Object.assign(this, { thread, checkpoint, can });
    this.element.classList.remove("none", "inside");
    this.inside.value = "";
    this.before = null;
    this.paint();
    const base = this.pinned ?? checkpoint.parent;
    await this.compare(base && base !== checkpoint.id ? base : "");
  }

  // Compares with another checkpoint, or with the previous one.
  pin(checkpoint) {
    this.pinned = checkpoint;
    if (this.checkpoint) this.compare(checkpoint ?? this.checkpoint.parent ?? "");
  }

  async compare(id) {
    const { thread, checkpoint } = this;
    if (id !== checkpoint.parent && id) this.pinned = id;
    if (id === checkpoint.parent) this.pinned = null;
    const before = id ? await attempt(() => this.baseOf(thread, id)) : null;
    if (checkpoint !== this.checkpoint) return;
    this.before = before ?? null;
    this.paint();
  }

  // Read only once, because it does not change.
  async baseOf(thread, id) {
    const known = this.bases.get(id) ?? (await State.read(thread, id));
    this.remember(known);
    return known;
  }

  remember(checkpoint) {
    this.bases.delete(checkpoint.id);
    this.bases.set(checkpoint.id, checkpoint);
    if (this.bases.size > 3) this.bases.delete(this.bases.keys().next().value);
  }

  paint() {
    const { checkpoint, before } = this;
    if (!checkpoint) return;
    const mark = before ? diff(before.values, checkpoint.values) : null;
    const values = Object.keys(checkpoint.unreadable).length ? { ...checkpoint.values, ...checkpoint.unreadable } : checkpoint.values;
    this.tree.show(values, mark, this.only.checked && Boolean(before));
    const count = changes(mark);
    this.count.textContent = before ? (count ? `${count}${count >= 10000 ? "+" : ""} change${count === 1 ? "" : "s"}` : "nothing changed") : "";
    this.paintHead(checkpoint);
    const options = [
      checkpoint.parent && h("option", { value: checkpoint.parent }, "the one before"),
      this.pinned && this.pinned !== checkpoint.parent && this.pinned !== checkpoint.id && h("option", { value: this.pinned }, shortId(this.pinned)),
      h("option", { value: "" }, "nothing"),
    ].filter(Boolean);
    this.base.replaceChildren(...options);
    this.base.value = before?.id ?? "";
    this.paintTasks(checkpoint.tasks);
    this.paintButtons();
  }

  paintHead(checkpoint) {
    this.head.replaceChildren(
      h("span", { class: "step" }, `step ${checkpoint.step}`), h("span", { class: `source ${checkpoint.source}` }, checkpoint.source),
      h("span", { class: "id", title: checkpoint.id }, shortId(checkpoint.id)), h("span", { class: "at" }, moment(checkpoint.at)));
  }

  paintTasks(tasks) {
    const named = tasks.filter((task) => task.node || Object.keys(task.writes).length);
    this.tasks.replaceChildren(...named.map((task) => {
      const state = task.error ? "failed" : task.done ? "done" : task.questions.length ? "asks" : "began";
      return h("details", { class: `task ${state}`, open: Boolean(task.error) },
        h("summary", {}, h("span", { class: "node" }, task.node ?? "a command"), h("span", { class: "how" }, state)),
        task.error && h("pre", { class: "bad" }, task.error),
        task.questions.length > 0 && h("pre", {}, JSON.stringify(task.questions.map((asked) => asked.value), null, 2)),
        Object.keys(task.writes).length > 0 && h("pre", {}, JSON.stringify(task.writes, null, 2).slice(0, 100000)));
    }));
  }

  paintButtons() {
    const { checkpoint, can } = this;
    const needs = can ? undefined : "This needs the program: open the studio of its server.";
    const button = (text, title, call, needsProgram = true) => h("button", {
      title: (needsProgram && needs) || title, disabled: needsProgram && !can, onclick: call,
    }, text);
    this.buttons.replaceChildren(
      button("Replay", "Runs again from this checkpoint, as a new branch", () => this.act.replay(checkpoint)),
      button("Edit", "Writes to the state; an older checkpoint gets a new branch", () => this.edit()),
      button("Fork", "Copies the thread to a new one, which continues from here", () => this.act.fork(checkpoint), false),
      button("Compare", "Shows what changed from here to any other checkpoint", () => {
        this.pin(this.pinned === checkpoint.id ? null : checkpoint.id);
        this.paint();
      }, false));
    this.buttons.lastChild.setAttribute("aria-pressed", String(this.pinned === checkpoint.id));
  }

  // Formats a channel as text for editing.
  async edit() {
    const { checkpoint } = this;
    const names = Object.keys(checkpoint.values);
    const { nodes } = await this.act.graph();
    const text = h("textarea", { rows: 12, spellcheck: false, "aria-label": "Value as JSON" });
    const fill = () => (text.value = JSON.stringify(checkpoint.values[channel.value] ?? null, null, 2));
    const channel = h("select", { "aria-label": "Channel", onchange: fill }, names.map((name) => h("option", { value: name }, name)));
    const how = h("select", { "aria-label": "Mode" }, h("option", { value: "replace" }, "replace the value"), h("option", { value: "write" }, "write through the reducer"));
    const as = h("select", { "aria-label": "As" }, h("option", { value: "" }, "the last writer"), nodes.map((name) => h("option", { value: name }, name)));
    fill();
    const body = h("div", { class: "edit" },
      h("div", { class: "line" }, h("label", {}, "Channel ", channel), h("label", {}, "Mode ", how), h("label", {}, "As ", as)), text);
    const change = await dialog("Edit the state", body, {
      ok: "Write",
      read: () => {
        const value = strict(text.value, channel.value);
        return { values: { [channel.value]: how.value === "replace" ? { __overwrite__: value } : value }, ...(as.value && { as_node: as.value }) };
      },
    });
    if (change) this.act.edit(checkpoint, change);
  }
}
