// Requests to the server. The token is entered on the page and lives as long as its tab.

const TOKEN = "hier.studio.token";
const BASE = new URL("..", document.baseURI);

let unlock = null;
// Asks the user for a token when the server requires one: a function that returns a promise of it.
export const onLocked = (ask) => (unlock = ask);

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (text) => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN)),
};

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

const address = (path) => new URL(path.replace(/^\//, ""), BASE);

function headers(more = {}) {
  const known = token.get();
  return known ? { authorization: `Bearer ${known}`, ...more } : more;
}

// One dialog for the token, even if many requests are refused.
let asking = null;
async function relock(tried) {
  if (token.get() !== tried) return;
  asking ??= unlock(tried !== null).finally(() => (asking = null));
  token.set(await asking);
}

async function refusal(response) {
  const text = await response.text();
  let detail = text;
  try {
    detail = JSON.parse(text).detail ?? text;
  } catch {
    // Not JSON: shown as text.
  }
  return new Refused(response.status, `${typeof detail === "string" ? detail : JSON.stringify(detail)} (${response.status})`);
}

async function request(method, path, body, options = {}) {
  for (;;) {
    const tried = token.get();
    const more = body === undefined ? {} : { "content-type": "application/json" };
    const response = await fetch(address(path), {
      method,
      headers: headers({ ...more, ...options.headers }),
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: options.signal,
      credentials: "same-origin",
      cache: "no-store",
    });
    if (response.status !== 401) return response;
    await relock(tried);
  }
}

async function ask(method, path, body, options) {
  const response = await request(method, path, body, options);
  if (!response.ok) throw await refusal(response);
  const text = await response.text();
  return text.trim() ? JSON.parse(text) : null;
}

export const get = (path, options) => ask("GET", path, undefined, options);
export const post = (path, body, options) => ask("POST", path, body, options);
export const put = (path, body) => ask("PUT", path, body);
export const patch = (path, body) => ask("PATCH", path, body);
export const remove = (path, body) => ask("DELETE", path, body);

// Builds a path, with its names escaped.
export const path = (strings, ...names) => String.raw({ raw: strings }, ...names.map(encodeURIComponent));

// A drawing as a document. It is never inserted as markup, so its scripts cannot run.
export function drawing(path) {
  return new Promise((resolve, reject) => {
    const asked = new XMLHttpRequest();
    asked.open("GET", address(path));
    for (const [name, value] of Object.entries(headers())) asked.setRequestHeader(name, value);
    asked.responseType = "document";
    asked.overrideMimeType("image/svg+xml");
    asked.onload = () => {
      const root = asked.response?.documentElement;
      if (asked.status === 200 && root?.localName === "svg") resolve(document.importNode(root, true));
      else reject(new Refused(asked.status, `failed to draw the graph (${asked.status})`));
    };
    asked.onerror = () => reject(new Error("the server cannot be reached"));
    asked.send();
  });
}

const pause = (milliseconds, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, milliseconds);
  signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
});

// Follows a stream of events after the one numbered `after`. A lost connection is opened again and continues where it ended.
export async function follow(path, after, { event, state, signal }) {
  let last = String(after);
  let failed = 0;
  while (!signal.aborted) {
    try {
      const response = await request("GET", path, undefined, { signal, headers: { "last-event-id": last } });
      if (!response.ok) throw await refusal(response);
      state("live");
      for await (const frame of frames(response.body)) {
        failed = 0;
        if (frame.id) last = frame.id;
        if (frame.data) event(JSON.parse(frame.data));
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 404) {
        state("gone");
        return;
      }
    }
    if (signal.aborted) return;
    state("lost");
    failed += 1;
    await pause(Math.min(500 * 2 ** Math.min(failed, 4), 8000), signal);
  }
}

// The frames of a body of server-sent events. A silent body is abandoned, because heartbeats come every five seconds.
async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await silent(reader.read());
      if (done) return;
      rest += value;
      const ends = rest.split("\n\n");
      rest = ends.pop();
      for (const text of ends) yield parsed(text);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function silent(read) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error("the stream timed out")), 20000)));
  return Promise.race([read, late]).finally(() => clearTimeout(timer));
}

function parsed(text) {
  const frame = {};
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) frame[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
  }
  return frame;
}
