// The list of events.

import { brief, dialog, h, eachFrame } from "./dom.js";
import { List } from "./list.js";

export class Events {
  constructor() {
    this.events = [];
    this.list = new List({
      label: "Events", height: 24,
      render: (index) => this.row(this.events[index]),
      choose: (index) => this.detail(this.events[index]),
    });
    this.element = h("div", { class: "events" }, this.list.element);
    this.draw = eachFrame(() => this.paint());
  }

  show(events) {
    this.events = events;
    this.draw();
  }

  paint() {
    const element = this.list.element;
    if (!element.clientHeight) return;
    const follows = element.scrollHeight - element.scrollTop - element.clientHeight < 40;
    if (this.painted === this.events && this.events.length >= this.list.count && this.first === this.events[0]?.n) this.list.grow(this.events.length);
    else this.list.set(this.events.length);
    Object.assign(this, { painted: this.events, first: this.events[0]?.n });
    if (follows) element.scrollTop = element.scrollHeight;
  }

  row(event) {
    const place = [...event.ns.map((level) => level.split(":")[0]), event.node ?? event.data?.name ?? event.data?.node].filter(Boolean);
    const text = event.cut && event.data === null ? "(large)" : JSON.stringify(event.data);
    return h("div", { class: `event ${event.mode}` },
      h("span", { class: "n" }, String(event.n)), h("span", { class: "mode" }, event.mode),
      h("span", { class: "place" }, place.join("/")), h("span", { class: "data" }, brief(text, 300)));
  }

  detail(event) {
    dialog(`Event ${event.n}`, h("textarea", { readonly: true, rows: 18, "aria-label": "Event", value: JSON.stringify(event, null, 2) }), { ok: null });
  }
}
