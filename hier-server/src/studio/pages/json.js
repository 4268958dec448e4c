// JSON as a tree with marks of changes. Rows are created when they become visible.

import { brief, dialog, h } from "./dom.js";
import { own } from "./diff.js";
import { List } from "./list.js";

const LETTERS = 240; // of a text that stand in a row
const WHOLE = 500000; // of a text that are shown at once
const OPENED = 400; // rows that are opened by themselves

const isTree = (value) => value !== null && typeof value === "object";
const size = (value) => (Array.isArray(value) ? value.length : Object.keys(value).length);

export class Tree {
  constructor(label) {
    this.rows = [];
    this.open = new Set();
    this.list = new List({
      label, height: 24, role: "tree",
      render: (index) => this.row(this.rows[index]),
      choose: (index, event) => this.chosen(index, event),
      key: (event, index) => this.press(event, index),
    });
    this.element = this.list.element;
    this.element.classList.add("json");
  }

  // Shows a value. With `only`, shows only marked parts.
  show(value, mark, only) {
    Object.assign(this, { value, mark, only });
    this.rows = this.inside({ value, mark, depth: -1, path: "" });
    this.unfold();
    this.list.set(this.rows.length);
  }

  // Opens small parts, parts that were open before, and changed parts.
  unfold() {
    for (let index = 0; index < this.rows.length; index += 1) {
      const row = this.rows[index];
      if (!isTree(row.value) || row.kind === "removed") continue;
      const room = this.rows.length < OPENED;
      const changed = this.only && row.mark?.kind === "inside" && room;
      const small = !this.only && row.depth < 1 && size(row.value) <= 12 && room;
      if (this.open.has(row.path) || changed || (small && !this.open.has(`-${row.path}`))) this.expand(index);
    }
  }

  // The rows of a value, removed ones last.
  inside({ value, mark, depth, path, kind }) {
    const rows = [];
    const add = (name, part, partMark) => {
      const inherited = kind === "added" || kind === "removed" ? kind : undefined;
      const rowKind = inherited ?? partMark?.kind;
      if (this.only && !rowKind) return;
      rows.push({ name, value: part, mark: partMark, kind: rowKind, depth: depth + 1, path: `${path}/${name}`, isOpen: false });
    };
    if (!isTree(value)) return rows;
    const marks = mark?.kind === "inside" ? mark.inside : null;
    const names = Array.isArray(value) ? value.keys() : Object.keys(value);
    for (const name of names) add(String(name), value[name], marks?.get(String(name)));
    for (const [name, part] of marks ?? []) {
      if (part.kind === "removed" && own(value, name) === undefined) add(name, part.old, part);
    }
    return rows;
  }

  expand(index) {
    const row = this.rows[index];
    if (row.isOpen || !isTree(row.value)) return;
    row.isOpen = true;
    this.rows = this.rows.slice(0, index + 1).concat(this.inside(row), this.rows.slice(index + 1));
  }

  collapse(index) {
    const row = this.rows[index];
    row.isOpen = false;
    let end = index + 1;
    while (end < this.rows.length && this.rows[end].depth > row.depth) end += 1;
    this.rows = this.rows.slice(0, index + 1).concat(this.rows.slice(end));
  }

  toggle(index, isOpen = !this.rows[index].isOpen) {
    const row = this.rows[index];
    this.open.delete(isOpen ? `-${row.path}` : row.path);
    this.open.add(isOpen ? row.path : `-${row.path}`);
    if (isOpen) this.expand(index);
    else this.collapse(index);
    const top = this.element.scrollTop;
    this.list.set(this.rows.length);
    this.element.scrollTop = top;
    this.list.mark(index, false);
  }

  chosen(index) {
    const row = this.rows[index];
    if (isTree(row.value)) this.toggle(index);
    else this.detail(row);
  }

  press(event, index) {
    const row = this.rows[index];
    if (!row) return false;
    if (event.key === "ArrowRight" && isTree(row.value)) {
      if (row.isOpen) this.list.mark(Math.min(index + 1, this.rows.length - 1));
      else this.toggle(index, true);
    } else if (event.key === "ArrowLeft") {
      if (row.isOpen) this.toggle(index, false);
      else {
        let up = index;
        while (up > 0 && this.rows[up].depth >= row.depth) up -= 1;
        this.list.mark(up);
      }
    } else {
      return false;
    }
    return true;
  }

  // Shows the whole text.
  detail(row) {
    const full = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");
    const text = full(row.value);
    const parts = [h("textarea", { readonly: true, rows: 16, "aria-label": "value", value: text.slice(0, WHOLE) })];
    if (text.length > WHOLE) parts.push(h("p", {}, `The first ${WHOLE} of ${text.length} characters.`));
    if (row.kind === "changed") {
      parts.push(h("h3", {}, "Before"), h("textarea", { readonly: true, rows: 8, "aria-label": "before", value: full(row.mark.old).slice(0, WHOLE) }));
    }
    dialog(row.path, h("div", {}, parts), { ok: null });
  }

  row(row) {
    const tree = isTree(row.value);
    const element = h("div", { class: `leaf ${row.kind && row.kind !== "inside" ? row.kind : ""}`, "aria-level": row.depth + 1 },
      h("span", { class: "twist", "aria-hidden": true }, tree ? (row.isOpen ? "▾" : "▸") : ""),
      h("span", { class: "name" }, brief(row.name, 80)),
      h("span", { class: "colon" }, ":"),
      shown(row.value),
      row.kind === "changed" && h("span", { class: "old" }, h("span", { class: "was" }, "was "), shown(row.mark.old)),
      row.kind === "inside" && !row.isOpen && h("span", { class: "dot", title: "changed inside" }, "●"));
    if (tree) element.setAttribute("aria-expanded", String(row.isOpen));
    element.style.paddingLeft = `${8 + row.depth * 16}px`;
    return element;
  }
}

function shown(value) {
  if (value === null) return h("span", { class: "null" }, "null");
  if (Array.isArray(value)) return h("span", { class: "count" }, `[${value.length}]`, hint(value));
  if (typeof value === "object") return h("span", { class: "count" }, `{${Object.keys(value).length}}`, hint(value));
  if (typeof value === "string") return h("span", { class: "string" }, JSON.stringify(brief(value, LETTERS)));
  return h("span", { class: typeof value }, String(value));
}

// The summary of a closed row.
function hint(value) {
  const kind = typeof value.type === "string" ? value.type : typeof value.role === "string" ? value.role : "";
  const name = typeof value.name === "string" ? value.name : "";
  const text = typeof value.content === "string" ? value.content : typeof value.text === "string" ? value.text : "";
  const words = [kind, name, brief(text, 80)].filter(Boolean).join(" · ");
  return words ? h("span", { class: "hint" }, ` ${words}`) : "";
}
