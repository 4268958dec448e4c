// The events of a thread, summarized by node and message.

import { follow, path } from "./api.js";

const HANDLER = /^__error_handler__/;
export const TASK = /:[0-9a-f]{8}-[0-9a-f-]{27}$/;
const KEPT = 5000; // events that are listed
const NONE = () => ({
  running: 0, count: 0, time: 0, failed: false, asking: false, begun: new Map(), failures: new Set(), asks: new Set(),
});

function mark(ids, id, isMarked) {
  if (isMarked) ids.add(id);
  else ids.delete(id);
}

export class Live {
  // `change(kind)` is called after each event: `run`, `task`, `message`, `state`, `event`.
  constructor({ change, connection }) {
    Object.assign(this, { change, connection });
    this.reset();
  }

  reset() {
    this.run = null;
    this.stats = new Map();
    this.spoken = new Map();
    this.events = [];
    this.namespaces = new Set();
    this.isRunning = false;
    this.error = null;
    this.by = null;
  }

  open(thread, after) {
    this.close();
    this.reset();
    if (!thread) return;
    const stop = (this.stop = new AbortController());
    follow(path`/studio/api/threads/${thread}/events`, after, {
      signal: stop.signal,
      event: (event) => stop === this.stop && this.take(event),
      state: (state) => stop === this.stop && this.connection(state),
    });
  }

  close() {
    this.stop?.abort();
    this.stop = null;
  }

  take(event) {
    this.events.push(event);
    if (this.events.length > KEPT) this.events.splice(0, KEPT / 5);
    if (event.run && event.run !== this.run) this.begin(event.run);
    if (event.ns.length && this.namespaces.size < 200) this.namespaces.add(event.ns.join("|"));
    const taken = TAKES[event.mode];
    this.change(taken ? taken.call(this, event) : "event", event);
  }

  begin(run) {
    this.run = run;
    this.stats = new Map();
    this.spoken = new Map();
    this.error = null;
    this.by = null;
  }

  stat(event, node) {
    const place = [...event.ns.map((level) => level.replace(TASK, "")), node];
    const key = JSON.stringify(place);
    if (!this.stats.has(key)) this.stats.set(key, NONE());
    return this.stats.get(key);
  }

  // A task starts or ends. If several modes report tasks, the first one in a run counts.
  task(event, payload, at) {
    this.by ??= event.mode;
    if (this.by !== event.mode || !payload) return "event";
    const stat = this.stat(event, payload.name.replace(HANDLER, ""));
    const { id } = payload;
    if (payload.triggers) {
      stat.begun.set(id, at);
    } else {
      // A handler ends after its failed node, or in place of a node that failed in an earlier run.
      const begun = stat.begun.get(id);
      if (begun !== undefined || !stat.failures.has(id)) stat.count += 1;
      if (begun !== undefined) stat.time += Math.max(0, at - begun);
      stat.begun.delete(id);
    }
    mark(stat.failures, id, payload.error);
    mark(stat.asks, id, payload.interrupts?.length);
    stat.running = stat.begun.size;
    stat.failed = stat.failures.size > 0;
    stat.asking = stat.asks.size > 0;
    return "task";
  }

  speak(event, { id, agent, path: place, text, reasoning, call, arguments: more, message }) {
    if (!id) return "event";
    if (!this.spoken.has(id)) this.spoken.set(id, { id, agent, place: place ?? [], text: "", reasoning: "", calls: [] });
    const said = this.spoken.get(id);
    if (text) said.text += text;
    if (reasoning) said.reasoning += reasoning;
    if (call) said.calls.push({ ...call, args: "" });
    if (more) {
      const known = said.calls.find((known) => known.id === more.id);
      if (known) known.args += more.text;
    }
    if (message) said.message = message;
    return "message";
  }
}

const TAKES = {
  start(event) {
    this.begin(event.run);
    this.isRunning = true;
    return "run";
  },
  end() {
    this.isRunning = false;
    for (const stat of this.stats.values()) {
      stat.begun.clear();
      stat.running = 0;
    }
    return "run";
  },
  debug(event) {
    return this.task(event, event.data?.payload, Date.parse(event.data?.timestamp) || Number(event.data?.timestamp) || event.at);
  },
  tasks(event) {
    return this.task(event, event.data, event.at);
  },
  updates(event) {
    // Runs without task events at least name the nodes that wrote.
    for (const node of Object.keys(event.data ?? {})) {
      if (node.startsWith("__") || (this.by ?? "updates") !== "updates") continue;
      this.by = "updates";
      this.stat(event, node).count += 1;
    }
    return "state";
  },
  messages(event) {
    return this.speak(event, event.data ?? {});
  },
  values: () => "state",
  checkpoints: () => "state",
  state_update: () => "state",
};
