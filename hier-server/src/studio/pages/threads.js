// The list of threads, with a search.

import { attempt, brief, h, moment, settled, shortId } from "./dom.js";
import { get } from "./api.js";
import { List } from "./list.js";

const PAGE = 200;

export class Threads {
  constructor({ choose, start }) {
    this.threads = [];
    this.total = 0;
    this.current = null;
    this.list = new List({
      label: "Threads", height: 52,
      render: (index) => this.row(this.threads[index]),
      choose: (index) => choose(this.threads[index].thread_id),
      near: () => this.more(),
    });
    this.search = h("input", { type: "search", placeholder: "Search  ( / )", "aria-label": "Search threads",
      oninput: settled(() => this.load(), 200),
      onkeydown: (event) => {
        if (event.key === "ArrowDown") this.list.element.focus();
        if (event.key === "Escape") this.search.blur();
      } });
    this.new = h("button", { class: "primary", title: "New thread (n)", onclick: start }, "New");
    this.foot = h("div", { class: "foot" });
    this.element = h("nav", { class: "pane threads", "aria-label": "Threads", "data-pane": "threads" },
      h("div", { class: "bar" }, this.search, this.new), this.list.element, this.foot);
  }

  ask(offset) {
    const query = new URLSearchParams({ q: this.search.value, limit: PAGE, offset });
    return get(`/studio/api/threads?${query}`);
  }

  // Reads the list again. Rows further down are read again when they become visible.
  load() {
    return attempt(async () => {
      const asked = (this.asked = {});
      const { threads, total } = await this.ask(0);
      if (asked !== this.asked) return;
      Object.assign(this, { threads, total });
      this.list.set(threads.length);
      this.mark(this.current, false);
      this.foot.textContent = total ? `${total} thread${total === 1 ? "" : "s"}` : this.search.value ? "No matching threads." : "No threads yet.";
    });
  }

  more() {
    if (this.loading || this.threads.length >= this.total) return;
    this.loading = true;
    attempt(async () => {
      const asked = this.asked;
      const { threads } = await this.ask(this.threads.length);
      if (asked !== this.asked || !threads.length) return;
      this.threads.push(...threads);
      this.list.grow(this.threads.length);
    }).finally(() => (this.loading = false));
  }

  mark(thread, show = true) {
    this.current = thread;
    this.list.mark(this.threads.findIndex((known) => known.thread_id === thread), show);
  }

  row(thread) {
    const name = thread.metadata?.title ?? thread.metadata?.name ?? shortId(thread.thread_id);
    return h("div", { class: "thread", title: thread.thread_id },
      h("span", { class: `light ${thread.status}`, title: thread.status }),
      h("span", { class: "what" },
        h("span", { class: "name" }, brief(String(name), 60)),
        h("span", { class: "about" }, [thread.graph ?? "never ran", moment(thread.updated_at)].filter(Boolean).join(" · "))));
  }
}
