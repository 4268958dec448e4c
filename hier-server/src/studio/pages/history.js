// The checkpoints of a thread as a tree, newest first, in pages.

import { attempt, h, moment, s, settled } from "./dom.js";
import { get, path } from "./api.js";
import { List } from "./list.js";

const PAGE = 500;
const LANE = 14;
const HEIGHT = 34;
const MOST_LANES = 12; // drawn next to each other

// Assigns each checkpoint to a lane of the tree, one lane for each branch, from the newest on.
export class Lanes {
  constructor() {
    this.waits = []; // for each lane the checkpoint that it leads down to
  }

  take(checkpoint) {
    const above = [...this.waits];
    let lane = this.waits.indexOf(checkpoint.id);
    const isTip = lane < 0;
    if (isTip) {
      lane = this.waits.indexOf(null);
      if (lane < 0) lane = this.waits.length;
    }
    const joins = [];
    this.waits.forEach((id, other) => {
      if (other !== lane && id === checkpoint.id) {
        joins.push(other);
        this.waits[other] = null;
      }
    });
    this.waits[lane] = checkpoint.parent ?? null;
    while (this.waits.length && this.waits.at(-1) === null) this.waits.pop();
    return { lane, isTip, joins, above, below: [...this.waits] };
  }
}

export class History {
  constructor({ choose }) {
    this.choose = choose;
    this.clear();
    this.list = new List({
      label: "Checkpoints", height: HEIGHT,
      render: (index) => this.row(index),
      choose: (index) => choose(this.checkpoints[index]),
      near: () => this.older(),
    });
    // Reads only when the key is released, so that holding it does not load every checkpoint.
    this.list.moved = settled((index) => this.checkpoints[index] && choose(this.checkpoints[index]), 150);
    this.foot = h("div", { class: "foot" });
    this.element = h("section", { class: "pane history", "aria-label": "History", "data-pane": "history" },
      h("h2", {}, "History"), this.list.element, this.foot);
  }

  clear() {
    this.checkpoints = [];
    this.places = [];
    this.lanes = new Lanes();
    this.thread = null;
    this.more = false;
  }

  ask(before, limit = PAGE) {
    const query = new URLSearchParams({ limit, ...(before && { before }) });
    return get(`${path`/studio/api/threads/${this.thread}/checkpoints`}?${query}`);
  }

  async open(thread) {
    this.clear();
    this.list.set(0);
    this.foot.textContent = "";
    this.thread = thread;
    if (!thread) return;
    const { checkpoints, more } = await this.ask();
    if (this.thread !== thread) return;
    this.take(checkpoints, more);
    this.list.element.scrollTop = 0;
    this.list.set(this.checkpoints.length);
  }

  take(checkpoints, more) {
    this.checkpoints = this.checkpoints.concat(checkpoints);
    for (const checkpoint of checkpoints) this.places.push(this.lanes.take(checkpoint));
    this.more = more;
    const count = this.checkpoints.length;
    this.foot.textContent = count ? `${count}${more ? "+" : ""} checkpoint${count === 1 ? "" : "s"}` : "No checkpoints yet.";
  }

  older() {
    if (!this.more || this.loading) return;
    this.loading = true;
    const thread = this.thread;
    attempt(async () => {
      const { checkpoints, more } = await this.ask(this.checkpoints.at(-1).id);
      if (this.thread !== thread) return;
      this.take(checkpoints, more);
      this.list.grow(this.checkpoints.length);
    }).finally(() => (this.loading = false));
  }

  // Reads checkpoints newer than the known ones, and returns the newest.
  async refresh() {
    const thread = this.thread;
    if (!thread) return null;
    const { checkpoints, more } = await this.ask(null, 100);
    if (this.thread !== thread) return null;
    const newest = this.checkpoints[0]?.id;
    const known = checkpoints.findIndex((checkpoint) => checkpoint.id === newest);
    if (known === 0 && checkpoints[0].next.join() === this.checkpoints[0].next.join()) return this.checkpoints[0];
    const kept = known < 0 ? { all: checkpoints, more } : { all: [...checkpoints.slice(0, known), ...this.checkpoints], more: this.more };
    const at = this.checkpoints[this.list.at]?.id;
    const top = this.list.element.scrollTop;
    this.checkpoints = [];
    this.places = [];
    this.lanes = new Lanes();
    this.take(kept.all, kept.more);
    this.list.at = -1;
    this.list.set(this.checkpoints.length);
    // Keeps the position of a user who has scrolled down.
    this.list.element.scrollTop = top > 0 && known > 0 ? top + known * HEIGHT : top;
    this.mark(at, false);
    return this.checkpoints[0] ?? null;
  }

  mark(id, show = true) {
    this.list.mark(this.checkpoints.findIndex((checkpoint) => checkpoint.id === id), show);
  }

  row(index) {
    const checkpoint = this.checkpoints[index];
    const place = this.places[index];
    const next = counted(checkpoint.next);
    return h("div", { class: `checkpoint ${checkpoint.source}`, title: checkpoint.id },
      tree(place),
      h("span", { class: "step" }, String(checkpoint.step)),
      h("span", { class: "source" }, checkpoint.source),
      h("span", { class: "what" }, next ? `→ ${next}` : "■ end",
        checkpoint.changed.length > 0 && h("span", { class: "changed" }, ` ${checkpoint.changed.join(", ")}`)),
      h("span", { class: "at" }, moment(checkpoint.at)));
  }
}

// Formats `["a", "a", "b"]` as `a ×2, b`.
export function counted(names) {
  const counts = new Map();
  for (const node of names) {
    const name = node === "__start__" ? "START" : node;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].map(([name, count]) => (count > 1 ? `${name} ×${count}` : name)).join(", ");
}

// The lines of a row: passing lanes, joining lanes, and the checkpoint.
function tree({ lane, isTip, joins, above, below }) {
  const middle = HEIGHT / 2;
  const x = (at) => LANE / 2 + Math.min(at, MOST_LANES) * LANE;
  const width = (Math.min(Math.max(above.length, below.length, lane + 1), MOST_LANES + 1)) * LANE;
  const lines = [];
  const line = (at, d) => lines.push(s("path", { class: `lane lane${at % 6}`, d }));
  above.forEach((id, at) => {
    if (id !== null && at !== lane && !joins.includes(at) && at <= MOST_LANES) line(at, `M${x(at)} 0V${HEIGHT}`);
  });
  for (const at of joins) line(at, `M${x(at)} 0C${x(at)} ${middle} ${x(lane)} 0 ${x(lane)} ${middle}`);
  if (!isTip) line(lane, `M${x(lane)} 0V${middle}`);
  if (below[lane]) line(lane, `M${x(lane)} ${middle}V${HEIGHT}`);
  const dot = s("circle", { class: `lane${lane % 6}`, cx: x(lane), cy: middle, r: 4.5 });
  return s("svg", { class: "tree", width, height: HEIGHT, "aria-hidden": "true" }, lines, dot);
}
