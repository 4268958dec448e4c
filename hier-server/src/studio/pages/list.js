// Lists of any length: only visible rows are elements.

import { eachFrame, h } from "./dom.js";

const BEYOND = 8; // rows kept ready above and below

export class List {
  // `render(index)` creates the element of a row, `choose(index)` receives the selection, `near()` is called near the end.
  constructor({ label, height, render, choose, near, key, role = "listbox" }) {
    Object.assign(this, { height, render, choose, near, key });
    this.count = 0;
    this.at = -1;
    this.rows = new Map();
    this.role = role;
    this.space = h("div", { class: "space", role: "presentation" });
    this.element = h("div", { class: "list", role, tabindex: 0, "aria-label": label,
      onscroll: () => this.draw(),
      onkeydown: (event) => this.press(event),
      onclick: (event) => this.click(event),
    }, this.space);
    this.name = `list${(List.made = (List.made ?? 0) + 1)}`;
    this.draw = eachFrame(() => this.paint());
    new ResizeObserver(this.draw).observe(this.element);
  }

  // Sets the number of rows. All of them may have changed.
  set(count) {
    this.count = count;
    if (this.at >= count) this.at = count - 1;
    this.space.style.height = `${count * this.height}px`;
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.paint();
  }

  // Adds rows at the end.
  grow(count) {
    this.count = count;
    this.space.style.height = `${count * this.height}px`;
    this.draw();
  }

  paint() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - BEYOND);
    const last = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / this.height) + BEYOND);
    for (const [index, row] of this.rows) {
      if (index < first || index >= last) {
        row.remove();
        this.rows.delete(index);
      }
    }
    for (let index = first; index < last; index += 1) {
      if (this.rows.has(index)) continue;
      const row = this.render(index);
      row.classList.add("row");
      row.id = `${this.name}-${index}`;
      row.setAttribute("role", this.role === "tree" ? "treeitem" : "option");
      row.setAttribute("aria-selected", String(index === this.at));
      row.style.transform = `translateY(${index * this.height}px)`;
      row.style.height = `${this.height}px`;
      row.dataset.index = index;
      this.rows.set(index, row);
      this.space.append(row);
    }
    if (this.at >= 0) this.element.setAttribute("aria-activedescendant", `${this.name}-${this.at}`);
    else this.element.removeAttribute("aria-activedescendant");
    if (this.near && last >= this.count - BEYOND) this.near();
  }

  // Marks a row, and scrolls to it if requested.
  mark(index, show = true) {
    this.rows.get(this.at)?.setAttribute("aria-selected", "false");
    this.at = index;
    this.rows.get(index)?.setAttribute("aria-selected", "true");
    if (show && index >= 0) {
      const top = index * this.height;
      const { scrollTop, clientHeight } = this.element;
      if (top < scrollTop) this.element.scrollTop = top;
      else if (top + this.height > scrollTop + clientHeight) this.element.scrollTop = top + this.height - clientHeight;
    }
    this.draw();
  }

  click(event) {
    const row = event.target.closest(".row");
    if (!row) return;
    const index = Number(row.dataset.index);
    this.mark(index, false);
    this.choose?.(index, event);
  }

  press(event) {
    if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height) - 1);
    const moves = {
      ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity,
    };
    if (event.key in moves && this.count) {
      const to = Math.max(0, Math.min(this.count - 1, this.at + moves[event.key]));
      this.mark(to);
      this.moved?.(to);
    } else if ((event.key === "Enter" || event.key === " ") && this.at >= 0) {
      this.choose?.(this.at, event);
    } else if (!this.key?.(event, this.at)) {
      return;
    }
    event.preventDefault();
  }
}
