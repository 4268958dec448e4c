// The studio: connects its parts, and requests their data from the server.

import { attempt, dialog, h, paced, say, shortId } from "./dom.js";
import { get, onLocked, path, post } from "./api.js";
import { Chat, talks } from "./chat.js";
import { Compose } from "./compose.js";
import { Events } from "./events.js";
import { Graph } from "./graph.js";
import { History } from "./history.js";
import { Live } from "./live.js";
import { Records } from "./records.js";
import { KINDS } from "./service.js";
import { State } from "./state.js";
import { Threads } from "./threads.js";

const MODES = ["tasks", "updates", "messages-tuple", "custom"];
const LOOKS = ["auto", "light", "dark"];
const BEFORE = 3000; // events that are read from before now

const about = { program: false, graphs: [], version: "" };
const now = { thread: null, row: null, latest: null, shown: null, follows: true };

const threads = new Threads({ choose: (thread) => go(thread), start: () => go(null, { fresh: true }) });
const graph = new Graph();
const history = new History({ choose: (checkpoint) => look(checkpoint) });
const chat = new Chat();
const state = new State({ act: { replay, edit, fork, graph: () => get(path`/studio/api/graphs/${graphOf()}`) } });
const events = new Events();
const live = new Live({ change: changed, connection: (text) => connection(text) });
const records = new Records();
const compose = new Compose({ run, cancel });
compose.picked = () => attempt(picture);

const title = h("h1", {}, "hier studio");
const status = h("span", { class: "status" });
const link = h("span", { class: "link", role: "status" });
const menu = h("button", { class: "icon", title: "More", "aria-label": "More", onclick: () => more() }, "⋯");
const theme = h("button", { class: "icon", onclick: () => dress(LOOKS[(LOOKS.indexOf(looks()) + 1) % LOOKS.length]) });
const tabs = ["chat", "state", "events"].map((name) => h("button", { role: "tab", id: `tab-${name}`, "data-tab": name, onclick: () => tab(name) }, name[0].toUpperCase() + name.slice(1)));
const side = h("section", { class: "pane side", "aria-label": "Thread", "data-pane": "side" },
  h("div", { class: "tabs", role: "tablist" }, tabs), chat.element, state.element, events.element, compose.element);
const PANES = [["threads", "Threads"], ["graph", "Graph"], ["history", "History"], ["side", "Thread"]];
const views = [["threads", "Threads"], ...Object.entries(KINDS).map(([name, kind]) => [name, kind.label])];
const menuOfViews = h("nav", { class: "views", "aria-label": "Views", hidden: true },
  views.map(([name, text]) => h("button", { "data-view": name, onclick: () => visit(name) }, text)));
const bottom = h("nav", { class: "bottom", "aria-label": "Panes" }, PANES.map(([name, text]) => h("button", { "data-to": name, onclick: () => pane(name) }, text)));

document.body.append(
  h("header", { class: "top" }, h("img", { src: "icon.svg", alt: "", width: 24, height: 24 }), menuOfViews, title, status, link, h("span", { class: "grow" }), menu, theme),
  h("main", {}, threads.element, h("div", { class: "middle" }, graph.element, history.element), side), records.element, bottom);

// ---- appearance and navigation

const looks = () => localStorage.getItem("hier.studio.look") ?? "auto";
function dress(look) {
  localStorage.setItem("hier.studio.look", look);
  document.documentElement.dataset.look = look;
  theme.textContent = { auto: "◐", light: "☀", dark: "☾" }[look];
  theme.title = `Colours: ${look} (t)`;
  theme.setAttribute("aria-label", theme.title);
}

function tab(name) {
  side.dataset.tab = name;
  for (const button of tabs) button.setAttribute("aria-selected", String(button.dataset.tab === name));
  if (name === "events") events.draw();
}

function pane(name) {
  document.body.dataset.pane = name;
  for (const button of bottom.children) button.setAttribute("aria-current", String(button.dataset.to === name));
}

// Shows the threads or the other records of the server.
function view(name) {
  document.body.dataset.view = name;
  for (const button of menuOfViews.children) button.setAttribute("aria-current", String(button.dataset.view === name));
  if (name !== "threads") return records.open(KINDS[name]);
  return undefined;
}

function visit(name) {
  if (name === "threads") return go(now.thread);
  const hash = `#/${name}`;
  if (location.hash !== hash) window.history.pushState(null, "", hash);
  return view(name);
}

// Shows the page of the address.
function arrive() {
  const name = location.hash.slice(2);
  if (Object.hasOwn(KINDS, name) && about.program) return view(name);
  view("threads");
  return open(...place());
}

// ---- the thread

function go(thread, { checkpoint, fresh } = {}) {
  const hash = thread ? `#${path`/threads/${thread}`}${checkpoint ? path`/${checkpoint}` : ""}` : "#";
  if (location.hash !== hash && !(hash === "#" && !location.hash)) window.history.pushState(null, "", hash);
  view("threads");
  if (fresh) pane("side");
  return attempt(() => open(thread, checkpoint));
}

function place() {
  const [, thread, checkpoint] = location.hash.match(/^#\/threads\/([^/]+)(?:\/([^/]+))?$/) ?? [];
  return [thread && decodeURIComponent(thread), checkpoint && decodeURIComponent(checkpoint)];
}

async function open(thread, checkpoint) {
  if (thread && thread === now.thread) {
    if (checkpoint) await lookAt(checkpoint);
    return;
  }
  if (thread) pane("side");
  Object.assign(now, { thread, row: null, latest: null, shown: null, follows: !checkpoint });
  live.open(null);
  state.clear();
  chat.open();
  events.show([]);
  threads.mark(thread);
  link.textContent = "";
  if (thread) {
    now.row = await get(path`/studio/api/threads/${thread}`);
    if (now.thread !== thread) return;
    live.open(thread, Math.max(0, now.row.last_event - BEFORE));
    await history.open(thread);
    await newest(thread);
    if (checkpoint) await lookAt(checkpoint);
    if (now.latest) tab(talks(now.latest.values).length ? "chat" : "state");
  } else {
    await history.open(null);
    tab("chat");
  }
  await picture();
  paint();
}

// Reads the newest checkpoint, and shows it unless the user has selected another one.
async function newest(thread) {
  const latest = await State.read(thread, "latest");
  if (now.thread !== thread) return;
  now.latest = latest;
  chat.show(latest?.values ?? {});
  if (latest && now.follows) await display(latest);
}

async function display(checkpoint) {
  now.shown = checkpoint;
  history.mark(checkpoint.id);
  paintGraph();
  await state.show(now.thread, checkpoint, about.program);
}

function look(checkpoint) {
  tab("state");
  window.history.replaceState(null, "", `#${path`/threads/${now.thread}/${checkpoint.id}`}`);
  if (window.matchMedia("(max-width: 820px)").matches) pane("side");
  return attempt(() => lookAt(checkpoint.id));
}

async function lookAt(id) {
  const thread = now.thread;
  now.follows = id === now.latest?.id;
  const asked = (now.asked = {});
  const checkpoint = await State.read(thread, id);
  if (asked === now.asked && thread === now.thread) await display(checkpoint);
}

// ---- contents

const graphOf = () => {
  const name = now.row?.runs?.[0]?.metadata?.graph_id ?? now.row?.graph ?? now.row?.metadata?.graph_id ?? now.latest?.graph;
  if (!name) return now.thread ? null : compose.chosen ?? about.graphs[0]?.name ?? null;
  return about.graphs.find((known) => known.name === name || known.title === name)?.name ?? name;
};

async function picture() {
  const name = graphOf();
  const served = about.graphs.some((known) => known.name === name);
  const why = about.program ? "No graph has run on this thread." : `The graph ${name ?? ""} is drawn where its program is served.`;
  await graph.show(served ? name : null, why);
}

function questions() {
  return (now.latest?.tasks ?? []).flatMap((task) => (task.done ? [] : task.questions.map((asked) => ({ ...asked, node: task.node }))));
}

function paintGraph() {
  const latest = now.follows || live.isRunning;
  graph.light(latest ? live.stats : null, latest ? (live.isRunning ? [] : now.latest?.next) : now.shown?.next);
}

function paint() {
  const row = now.row;
  const runs = row?.runs ?? [];
  const busy = row?.status === "busy";
  title.textContent = now.thread ? row?.metadata?.title ?? shortId(now.thread) : about.program ? "New thread" : "hier studio";
  title.title = now.thread ?? "";
  status.textContent = row?.status ?? "";
  status.className = `status ${row?.status ?? ""}`;
  menu.hidden = !now.thread;
  const failed = row?.status === "error" && (runs[0]?.error ?? row.error);
  if (failed && now.said !== runs[0]?.run_id) {
    now.said = runs[0]?.run_id;
    say(`${failed.error}: ${failed.message}`, true);
  }
  compose.show({
    program: about.program, graphs: about.graphs, thread: now.thread, graph: now.thread ? graphOf() : null, busy,
    questions: questions(), next: now.latest?.next ?? [],
  });
  paintGraph();
}

function connection(text) {
  link.textContent = { live: "", lost: "connection lost: trying again…", gone: "the thread was deleted" }[text];
  if (text === "live" && now.lost) refresh();
  now.lost = text === "lost";
}

// ---- activity

const refresh = paced(() => attempt(async () => {
  const thread = now.thread;
  if (!thread) return;
  const row = await get(path`/studio/api/threads/${thread}`);
  if (now.thread !== thread) return;
  now.row = row;
  const head = await history.refresh();
  if (now.thread !== thread) return;
  // The checkpoint contains the results of its tasks until it has a successor.
  if (head && (head.id !== now.latest?.id || row.status !== "busy")) await newest(thread);
  if (now.thread === thread) {
    await picture();
    paint();
  }
}), 350);
const list = paced(() => threads.load(), 1500);

function changed(kind) {
  events.show(live.events);
  if (kind === "run") {
    refresh();
    list();
  }
  if (kind === "state") refresh();
  if (kind === "task" || kind === "run") {
    paintGraph();
    state.places(live.namespaces);
  }
  if (kind === "message" || kind === "run") chat.stream(live.spoken);
}

// ---- actions

async function run(name, body) {
  let thread = now.thread;
  if (!thread) {
    thread = (await post("/threads", { metadata: { graph_id: name } })).thread_id;
    await go(thread);
  }
  now.follows = true;
  await post(path`/threads/${thread}/runs`, {
    assistant_id: name, stream_mode: MODES, stream_subgraphs: true, stream_resumable: true, ...body,
  });
  tab(talks(now.latest?.values).length || body.input?.messages ? "chat" : "state");
  refresh();
  list();
}

async function replay(checkpoint) {
  await attempt(() => run(graphOf(), { input: null, checkpoint: { checkpoint_id: checkpoint.id, checkpoint_ns: "" } }));
}

async function edit(checkpoint, change) {
  await attempt(async () => {
    const at = checkpoint.id === now.latest?.id ? {} : { checkpoint_id: checkpoint.id };
    await post(path`/threads/${now.thread}/state`, { ...change, ...at });
    now.follows = true;
    say("written");
    refresh();
  });
}

async function fork(checkpoint) {
  await attempt(async () => {
    const { thread_id: copy } = await post(path`/studio/api/threads/${now.thread}/fork`, { checkpoint: checkpoint?.id ?? null });
    threads.load();
    await go(copy);
    say("copied the thread, which continues from that checkpoint");
  });
}

async function cancel() {
  const live = (now.row?.runs ?? []).filter((run) => run.status === "pending" || run.status === "running");
  for (const run of live) await attempt(() => post(path`/threads/${now.thread}/runs/${run.run_id}/cancel`, {}));
  refresh();
}

async function more() {
  const keep = h("input", { type: "number", min: 1, value: 10, "aria-label": "Checkpoints to keep" });
  let what = "fork";
  const choice = (name, ...text) => h("label", { class: "choice" }, h("input", { type: "radio", name: "what", value: name, checked: name === what, onchange: () => (what = name) }), ...text);
  const body = h("div", {}, choice("fork", " Copy the thread to a new one"), choice("prune", " Keep the last ", keep, " checkpoints"), choice("delete", " Delete the thread"));
  const done = await dialog(`Thread ${shortId(now.thread)}`, body, { ok: "Apply", danger: true });
  if (!done) return;
  if (what === "fork") return fork(null);
  await attempt(async () => {
    const answer = await post(path`/studio/api/threads/${now.thread}/prune`, { keep: what === "delete" ? 0 : Math.max(1, keep.valueAsNumber || 1) });
    if (what === "delete") {
      await go(null);
    } else {
      say(`${answer.pruned} checkpoints deleted`);
      await history.open(now.thread);
    }
    threads.load();
  });
}

// ---- keys

const KEYS = {
  "/": ["search", () => (document.body.dataset.view === "threads" ? (pane("threads"), threads.search.focus()) : records.search.focus())],
  n: ["new thread", () => go(null, { fresh: true })],
  r: ["run or answer", () => (pane("side"), compose.focus())],
  g: ["graph", () => (pane("graph"), graph.paper.focus())],
  h: ["history", () => (pane("history"), history.list.element.focus())],
  c: ["chat", () => (pane("side"), tab("chat"), chat.scroll.focus())],
  s: ["state", () => (pane("side"), tab("state"), state.tree.element.focus())],
  e: ["events", () => (pane("side"), tab("events"), events.list.element.focus())],
  a: ["assistants", () => about.program && visit("assistants")],
  k: ["crons", () => about.program && visit("crons")],
  m: ["store", () => about.program && visit("store")],
  t: ["colours", () => dress(LOOKS[(LOOKS.indexOf(looks()) + 1) % LOOKS.length])],
  "?": ["all keys", () => help()],
};

function help() {
  const rows = Object.entries(KEYS).map(([key, [text]]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)]);
  dialog("Keys", h("dl", { class: "keys" }, rows, h("dt", {}, h("kbd", {}, "↑ ↓ ← →")), h("dd", {}, "move in lists and trees")), { ok: null });
}

document.addEventListener("keydown", (event) => {
  // A dialog that has just closed keeps the focus until the next frame. Keys that are pressed meanwhile belong to the page.
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
  const known = Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : null;
  if (!known || event.defaultPrevented) return;
  event.preventDefault();
  known[1]();
});
window.addEventListener("popstate", () => attempt(arrive));

// ---- authentication

onLocked(async (again) => {
  const input = h("input", { type: "password", autocomplete: "off", "aria-label": "Token" });
  for (;;) {
    const given = await dialog("Sign in", h("div", {},
      h("p", {}, again ? "The server does not know this token." : "The server requires a token."), input,
      h("p", { class: "faint" }, "The token is stored until this tab is closed.")), { ok: "Sign in", read: () => input.value.trim() });
    if (given) return given;
  }
});

dress(looks());
tab("chat");
pane("threads");
await attempt(async () => {
  Object.assign(about, await get("/studio/api/about"));
  threads.new.hidden = !about.program;
  menuOfViews.hidden = !about.program;
  threads.load();
  await arrive();
});
document.documentElement.dataset.ready = "yes";
