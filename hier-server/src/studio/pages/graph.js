// The drawing of the graph, with the activity of its nodes.

import { attempt, duration, eachFrame, h, s } from "./dom.js";
import { drawing, path } from "./api.js";

const STATES = ["running", "asking", "failed", "done", "next"];

export class Graph {
  constructor() {
    this.open = [];
    this.zoom = null;
    this.parts = new Map();
    this.paper = h("div", { class: "paper", tabindex: 0, "aria-label": "Graph" });
    this.none = h("p", { class: "empty" }, "");
    const button = (label, text, call) => h("button", { class: "icon", title: label, "aria-label": label, onclick: call }, text);
    this.tools = h("div", { class: "tools" },
      this.unfold = button("Open all subgraphs", "⊞", () => this.openAll()),
      button("Zoom out", "−", () => this.scale((this.zoom ?? this.fitted()) / 1.25)),
      button("Fit", "⤢", () => this.scale(this.fitted(0.1))),
      button("Zoom in", "+", () => this.scale((this.zoom ?? this.fitted()) * 1.25)));
    this.element = h("section", { class: "pane graph", "aria-label": "Graph", "data-pane": "graph" }, this.paper, this.none, this.tools);
    this.draw = eachFrame((stats, next) => this.lit(stats, next));
    new ResizeObserver(eachFrame(() => this.fit())).observe(this.paper);
  }

  // Shows a graph of the server, or none.
  async show(name, why = "") {
    if (this.name === name && this.svg) return;
    this.name = name;
    this.open = [];
    this.zoom = null;
    this.paper.replaceChildren();
    this.svg = null;
    this.none.textContent = name ? "" : why;
    this.tools.hidden = !name;
    if (name) await attempt(() => this.load());
  }

  async load() {
    const name = this.name;
    const open = this.open === "*" ? "*" : JSON.stringify(this.open);
    const svg = await drawing(`${path`/studio/api/graphs/${name}/svg`}?open=${encodeURIComponent(open)}`);
    if (name !== this.name) return;
    this.svg = svg;
    this.parts.clear();
    for (const part of svg.querySelectorAll("[data-path]")) {
      const place = JSON.parse(part.dataset.path);
      this.parts.set(JSON.stringify(place), part);
      this.prepare(part, place);
    }
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    this.size = { width, height };
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `the graph ${name}`);
    this.paper.replaceChildren(svg);
    this.unfold.hidden = this.open.length === 0 && !svg.querySelector(".closed");
    this.fit();
    this.lit(this.stats, this.next);
  }

  // A click on a node with a subgraph opens it, a click on the frame closes it.
  prepare(part, place) {
    const isFrame = part.classList.contains("frame");
    if (!isFrame && !part.classList.contains("closed")) return;
    const turn = () => this.turn(place, !isFrame);
    part.setAttribute("tabindex", "0");
    part.setAttribute("role", "button");
    part.setAttribute("aria-label", `${isFrame ? "close" : "open"} ${place.join(" / ")}`);
    part.append(s("title", {}, `${isFrame ? "Close" : "Open"} the graph of ${place.at(-1)}`));
    part.addEventListener("click", turn);
    part.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        turn();
      }
    });
  }

  turn(place, isOpen) {
    if (this.open === "*") {
      this.open = [...this.svg.querySelectorAll(".frame")].map((frame) => JSON.parse(frame.dataset.path));
    }
    const within = (other) => place.every((name, index) => other[index] === name);
    this.open = isOpen ? [...this.open, place] : this.open.filter((other) => !within(other));
    attempt(() => this.load());
  }

  openAll() {
    this.open = this.open === "*" ? [] : "*";
    attempt(() => this.load());
  }

  // Fits the whole graph if its names stay readable.
  fitted(least = 0.8) {
    const { clientWidth, clientHeight } = this.paper;
    return Math.max(least, Math.min(1.1, (clientWidth - 8) / this.size.width, (clientHeight - 8) / this.size.height));
  }

  scale(zoom) {
    this.zoom = Math.max(0.1, Math.min(4, zoom));
    this.fit();
  }

  fit() {
    if (!this.svg || !this.paper.clientWidth) return;
    const zoom = this.zoom ?? this.fitted();
    this.svg.style.width = `${this.size.width * zoom}px`;
    this.svg.style.height = `${this.size.height * zoom}px`;
  }

  // `stats` has the activity of each node by path, `next` the nodes of the root graph that run next.
  light(stats, next) {
    Object.assign(this, { stats, next });
    this.draw(stats, next);
  }

  lit(stats, next) {
    if (!this.svg) return;
    for (const [key, part] of this.parts) {
      const stat = stats?.get(key);
      const place = JSON.parse(key);
      const isNext = place.length === 1 && next?.includes(place[0]);
      const states = {
        running: stat?.running > 0, asking: stat?.asking, failed: stat?.failed, done: stat?.count > 0, next: isNext,
      };
      const state = STATES.find((name) => states[name]) ?? "";
      for (const name of STATES) part.classList.toggle(name, name === state);
      this.tally(part, stat);
    }
    this.reveal();
  }

  // Scrolls once to the node that runs or asks.
  reveal() {
    const part = this.svg.querySelector(".node.asking, .node.failed, .node.running");
    if (!part || part === this.revealed) return;
    this.revealed = part;
    const [box, paper] = [part.getBoundingClientRect(), this.paper.getBoundingClientRect()];
    if (box.top < paper.top + 40 || box.bottom > paper.bottom - 20) this.paper.scrollTop += box.top - paper.top - paper.height / 2;
    if (box.left < paper.left || box.right > paper.right) this.paper.scrollLeft += box.left - paper.left - paper.width / 2;
  }

  // The number and duration of a node's runs.
  tally(part, stat) {
    let text = part.querySelector(":scope > .tally");
    const words = stat && (stat.count || stat.running)
      ? [stat.count > 1 && `×${stat.count}`, stat.count > 0 && duration(stat.time), stat.running > 1 && `${stat.running} at once`].filter(Boolean).join(" · ")
      : "";
    if (!words) {
      text?.remove();
      return;
    }
    if (!text) {
      const box = part.querySelector("rect");
      const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(box.getAttribute(name)));
      const isFrame = part.classList.contains("frame");
      text = s("text", isFrame
        ? { class: "tally", x: x + width - 6, y: y + 14, "text-anchor": "end" }
        : { class: "tally", x: x - 6, y: y + height / 2 + 3.5, "text-anchor": "end" });
      part.append(text);
    }
    if (text.textContent !== words) text.textContent = words;
  }
}
