// The actions on a thread: start a run, answer, continue, stop.

import { attempt, brief, h } from "./dom.js";
import { get, path } from "./api.js";
import { form, loose, strict } from "./form.js";

export class Compose {
  // `run(graph, body)` starts a run, `cancel()` stops the running one.
  constructor({ run, cancel }) {
    Object.assign(this, { run, cancel });
    this.element = h("footer", { class: "compose", "aria-label": "Run" });
    this.schemas = new Map();
    this.shape = "";
  }

  // `now` is {program, graphs, thread, graph, questions, next, busy}.
  async show(now) {
    this.now = now;
    const shape = JSON.stringify([now.program, now.thread, now.graph, now.busy, now.next, now.questions.map((asked) => asked.id)]);
    if (shape === this.shape) return;
    this.shape = shape;
    const parts = await attempt(() => this.parts(now));
    if (parts && shape === this.shape) this.element.replaceChildren(...parts);
  }

  async parts(now) {
    if (!now.program) {
      return [h("p", { class: "notice" }, "Only the database is open here: threads can be read, forked and pruned. To run, answer and edit, open the studio of the program’s server.")];
    }
    if (now.busy) {
      return [h("div", { class: "line" }, h("span", { class: "spinner", "aria-hidden": true }), h("span", { class: "grow" }, "Running…"),
        h("button", { class: "danger", onclick: () => this.cancel() }, "Cancel"))];
    }
    const people = now.questions.filter((asked) => !asked.kind || asked.kind === "person");
    if (people.length) return this.answers(people);
    if (now.thread && now.next.length) return this.goesOn(now);
    return this.input(now);
  }

  // A thread that waits without a question: at a breakpoint, after an edit, for a time or a signal.
  goesOn(now) {
    const waits = now.questions.map((asked) => {
      if (asked.due) return `until ${new Date(asked.due).toLocaleString()}`;
      return typeof asked.kind === "object" ? `for the signal ${Object.values(asked.kind)[0]}` : "";
    }).filter(Boolean);
    return [h("div", { class: "line" },
      h("span", { class: "grow" }, waits.length ? `Waiting ${waits.join(", ")}.` : `Stopped before ${[...new Set(now.next)].join(", ")}.`),
      h("button", { class: "primary", onclick: () => this.start({ input: null }) }, "Resume"))];
  }

  answers(questions) {
    const forms = questions.map((asked) => answer(asked));
    const wrong = h("p", { class: "wrong", role: "alert" });
    const send = (event) => {
      event.preventDefault();
      wrong.textContent = "";
      try {
        const given = forms.map((one) => [one.id, one.read()]).filter(([, value]) => value !== undefined);
        if (!given.length) throw new Error("the answer is empty");
        this.start({ command: { resume: Object.fromEntries(given) } });
      } catch (error) {
        wrong.textContent = error.message;
      }
    };
    return [h("form", { class: "answers", onsubmit: send }, forms.map((one) => one.element), wrong,
      h("div", { class: "line" }, h("span", { class: "grow" }), h("button", { class: "primary", type: "submit" }, "Answer")))];
  }

  async schema(graph) {
    if (!this.schemas.has(graph)) this.schemas.set(graph, await get(path`/studio/api/graphs/${graph}`));
    return this.schemas.get(graph);
  }

  // The input of a run: a message if the graph has messages, its channels, or JSON.
  async input(now) {
    const names = now.graphs.map((graph) => graph.name);
    const graph = now.graph && names.includes(now.graph) ? now.graph : this.chosen && names.includes(this.chosen) ? this.chosen : names[0];
    if (now.graph && !names.includes(now.graph)) {
      return [h("p", { class: "notice" }, `The graph ${brief(now.graph, 60)} of this thread is not served here.`)];
    }
    const { schemas } = await this.schema(graph);
    const properties = schemas.input_schema?.properties ?? {};
    const ways = [
      "messages" in properties && ["Message", () => line()],
      ["Fields", () => form(schemas.input_schema, "input", { partial: true })],
      ["JSON", () => json(properties)],
    ].filter(Boolean);
    const body = h("div", { class: "way" });
    const wrong = h("p", { class: "wrong", role: "alert" });
    let current;
    const tabs = ways.map(([name, make]) => h("button", { type: "button", role: "tab", onclick: () => choose(name, make) }, name));
    const choose = (name, make) => {
      current = make();
      tabs.forEach((tab) => tab.setAttribute("aria-selected", String(tab.textContent === name)));
      body.replaceChildren(current.element);
    };
    const send = (event) => {
      event.preventDefault();
      wrong.textContent = "";
      try {
        this.start({ input: current.read() }, graph);
      } catch (error) {
        wrong.textContent = error.message;
      }
    };
    const element = h("form", { class: "input", onsubmit: send }, body, wrong,
      h("div", { class: "line" },
        !now.graph && h("select", { "aria-label": "Graph", value: graph, onchange: (event) => {
          this.chosen = event.target.value;
          this.shape = "";
          this.show(this.now);
          this.picked?.(this.chosen);
        } }, names.map((name) => h("option", { value: name, selected: name === graph }, name))),
        h("div", { class: "tabs small", role: "tablist" }, tabs),
        h("span", { class: "grow" }),
        h("button", { class: "primary", type: "submit", title: "Run (Ctrl+Enter)" }, "Run")));
    element.addEventListener("keydown", (event) => {
      const sends = event.key === "Enter" && (event.ctrlKey || event.metaKey || (event.target.classList.contains("say") && !event.shiftKey));
      if (!sends) return;
      event.preventDefault();
      element.requestSubmit();
    });
    choose(...ways[0]);
    return [element];
  }

  start(body, graph = this.now.graph) {
    attempt(() => this.run(graph, body)).then(() => {
      this.shape = "";
    });
  }

  focus() {
    this.element.querySelector("textarea, input, select, button")?.focus();
  }
}

function line() {
  const input = h("textarea", { class: "say", rows: 2, placeholder: "Write a message…", "aria-label": "Message" });
  return {
    element: input,
    read: () => {
      if (!input.value.trim()) throw new Error("the message is empty");
      return { messages: [{ role: "user", content: input.value }] };
    },
  };
}

function json(properties) {
  const names = Object.keys(properties).slice(0, 3).map((name) => `"${name}": …`);
  const input = h("textarea", { rows: 4, value: "{}", "aria-label": "Input as JSON", spellcheck: false, title: `{ ${names.join(", ")} }` });
  return { element: input, read: () => strict(input.value, "input") };
}

// The form of a question: from its schema, from its list of answers, or as text or JSON.
function answer(asked) {
  const question = h("div", { class: "question" }, asked.node && h("span", { class: "node" }, asked.node), said(asked.value));
  if (asked.schema) {
    const made = form(asked.schema, "answer");
    return { id: asked.id, element: h("fieldset", {}, question, made.element), read: made.read };
  }
  const input = h("textarea", { rows: 1, placeholder: "Your answer: text or JSON", "aria-label": "Answer" });
  const element = h("fieldset", {}, question, h("div", { class: "field" }, input));
  return { id: asked.id, element, read: () => (input.value === "" ? undefined : loose(input.value)) };
}

function said(value) {
  if (typeof value === "string") return h("p", {}, value);
  const text = value?.question ?? value?.message ?? value?.text;
  const rest = JSON.stringify(value, null, 2);
  return h("div", {}, typeof text === "string" && h("p", {}, text), h("pre", {}, brief(rest, 20000)));
}
