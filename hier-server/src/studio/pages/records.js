// Records of the server other than threads: a list on the left, and the selected record as JSON with its actions on the right.

import { attempt, dialog, h, settled } from "./dom.js";
import { Tree } from "./json.js";
import { List } from "./list.js";

const PAGE = 100;

export class Records {
  constructor() {
    Object.assign(this, { records: [], isWhole: true });
    this.list = new List({
      label: "Records", height: 52,
      render: (index) => this.row(this.records[index]),
      choose: (index) => this.choose(this.records[index]),
      near: () => this.more(),
    });
    this.search = h("input", { type: "search", oninput: settled(() => this.load(), 200) });
    this.tools = h("div", { class: "bar" });
    this.foot = h("div", { class: "foot" });
    this.head = h("h2", {});
    this.buttons = h("div", { class: "actions" });
    this.tree = new Tree("Record");
    this.detail = h("section", { class: "pane detail", "aria-label": "Record" }, this.head, this.buttons, this.tree.element);
    this.element = h("div", { class: "records" },
      h("nav", { class: "pane", "aria-label": "Records" }, this.tools, this.list.element, this.foot), this.detail);
  }

  // Shows the records of a kind. See service.js for the parts of a kind.
  open(kind) {
    this.kind = kind;
    this.search.value = "";
    this.search.placeholder = kind.search ?? "";
    this.search.setAttribute("aria-label", kind.search ?? "");
    this.list.element.setAttribute("aria-label", kind.label);
    const create = kind.create && h("button", { class: "primary", onclick: () => this.act(() => kind.create()) }, "New");
    this.tools.replaceChildren(...[kind.search ? this.search : h("span", { class: "grow" }), create].filter(Boolean));
    Object.assign(this, { records: [], isWhole: true });
    this.list.set(0);
    this.foot.textContent = "";
    this.choose(null);
    return this.load();
  }

  // Reads the list again, and shows the current state of the selected record.
  load() {
    return attempt(async () => {
      const asked = (this.asked = {});
      const records = await this.kind.page(this.search.value.trim(), PAGE, 0);
      if (asked !== this.asked) return;
      Object.assign(this, { records, isWhole: records.length < PAGE });
      this.list.set(records.length);
      this.count();
      const { id } = this.kind;
      const at = this.chosen ? records.findIndex((record) => id(record) === id(this.chosen)) : -1;
      this.list.mark(at, false);
      await this.choose(records[at] ?? null);
    });
  }

  more() {
    if (this.isLoading || this.isWhole) return;
    this.isLoading = true;
    attempt(async () => {
      const asked = this.asked;
      const records = await this.kind.page(this.search.value.trim(), PAGE, this.records.length);
      if (asked !== this.asked) return;
      this.isWhole = records.length < PAGE;
      this.records.push(...records);
      this.list.grow(this.records.length);
      this.count();
    }).finally(() => (this.isLoading = false));
  }

  count() {
    const count = this.records.length;
    this.foot.textContent = count ? `${count}${this.isWhole ? "" : "+"} ${this.kind.noun}${count === 1 ? "" : "s"}` : `No ${this.kind.noun} here.`;
  }

  row(record) {
    const { name, about, light } = this.kind.row(record);
    return h("div", { class: "thread", title: name },
      light && h("span", { class: `light ${light}` }),
      h("span", { class: "what" }, h("span", { class: "name" }, name), h("span", { class: "about" }, about)));
  }

  async choose(record) {
    this.chosen = record;
    this.detail.classList.toggle("none", !record);
    this.head.textContent = record ? this.kind.row(record).name : "";
    this.tree.show(record ? this.kind.shown(record) : {}, null, false);
    const actions = record ? (await attempt(() => this.kind.actions(record))) ?? [] : [];
    if (record !== this.chosen) return;
    this.buttons.replaceChildren(...actions.map(({ name, title, danger, choices, call }) => {
      if (!choices) return h("button", { title, class: danger ? "danger" : "", onclick: () => this.act(call) }, name);
      const select = h("select", { title, "aria-label": name, onchange: () => this.act(() => call(select.value)) },
        choices.map(([value, text, selected]) => h("option", { value, selected }, text)));
      return h("label", {}, `${name} `, select);
    }));
  }

  // Runs the action of a button, and shows its result.
  act(call) {
    return attempt(call).then((done) => done !== undefined && this.load());
  }
}

// Asks for confirmation, and deletes.
export async function removal(what, call) {
  const sure = await dialog(`Delete ${what}?`, h("p", {}, "This cannot be undone."), { ok: "Delete", danger: true });
  if (!sure) return undefined;
  await call();
  return true;
}
