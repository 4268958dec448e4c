// The kinds of records other than threads: how they are listed, shown and changed.
//
// A kind has `label` and `noun`; optionally `search`, the hint of the search field; `page(text, limit, offset)`, which reads records;
// `id`, `row` and `shown`, which identify a record, format its row and show it; `actions(record)`; and optionally
// `create()`. Actions resolve to nothing if they were cancelled.

import { dialog, h, moment, say } from "./dom.js";
import { get, patch, path, post, put, remove } from "./api.js";
import { strict } from "./form.js";
import { removal } from "./records.js";

function labelled(name, input) {
  return h("div", { class: "field" }, h("label", {}, name), input);
}

// A dialog for JSON, with text fields above it.
async function write(title, fields, value) {
  const inputs = fields.map((name) => [name, h("input", { type: "text", required: true, "aria-label": name })]);
  const text = h("textarea", { rows: 12, spellcheck: false, "aria-label": "Value as JSON", value: JSON.stringify(value, null, 2) });
  const body = h("div", { class: "fields" }, inputs.map(([name, input]) => labelled(name, input)), text);
  return dialog(title, body, {
    ok: "Write",
    read: () => [strict(text.value, "value"), ...inputs.map(([, input]) => input.value.trim())],
  });
}

// Maximum number of an assistant's versions to choose from.
const VERSIONS = 100;

const system = (assistant) => assistant.metadata?.created_by === "system";

// The configuration of runs. The server also stores the context as `configurable`, so it is written only once.
function configuration({ config, context }) {
  const { configurable, ...rest } = config;
  return JSON.stringify(configurable ?? {}) === JSON.stringify(context ?? {}) ? { config: rest, context } : { config, context };
}

const assistants = {
  label: "Assistants", noun: "assistant", search: "Name contains",
  page: (name, limit, offset) => post("/assistants/search", { limit, offset, ...(name && { name }) }),
  id: (assistant) => assistant.assistant_id,
  row: (assistant) => ({
    name: assistant.name || assistant.graph_id,
    about: [assistant.graph_id, `version ${assistant.version}`, system(assistant) ? "of the program" : moment(assistant.updated_at)].join(" · "),
  }),
  shown: (assistant) => assistant,
  async actions(assistant) {
    const id = assistant.assistant_id;
    const versions = await post(path`/assistants/${id}/versions`, { limit: VERSIONS });
    const use = {
      name: "Version", title: "The version that runs use",
      choices: versions.map(({ version }) => [version, `version ${version}`, version === assistant.version]),
      async call(version) {
        await post(path`/assistants/${id}/latest`, { version: Number(version) });
        say(`runs now use version ${version}`);
        return true;
      },
    };
    const edit = {
      name: "Edit", title: "Creates a version with another configuration",
      async call() {
        const given = await write("A new version", [], configuration(assistant));
        if (!given) return undefined;
        const [{ config, context }] = given;
        return patch(path`/assistants/${id}`, { config, context });
      },
    };
    const dies = { name: "Delete", danger: true, call: () => removal("the assistant with its versions", () => remove(path`/assistants/${id}`)) };
    return [versions.length > 1 && use, edit, !system(assistant) && dies].filter(Boolean);
  },
};

const crons = {
  label: "Crons", noun: "cron",
  page: (_, limit, offset) => post("/runs/crons/search", { limit, offset }),
  id: (cron) => cron.cron_id,
  row: (cron) => ({
    name: [cron.schedule, cron.timezone].filter(Boolean).join(" "),
    about: cron.enabled ? cron.next_run_date ? `next ${moment(cron.next_run_date)}` : "has ended" : "paused",
    light: cron.enabled && cron.next_run_date ? "idle" : "interrupted",
  }),
  shown: (cron) => cron,
  actions(cron) {
    const id = cron.cron_id;
    const change = (enabled) => async () => {
      await patch(path`/runs/crons/${id}`, { enabled });
      return true;
    };
    return [
      cron.enabled ? { name: "Pause", title: "Adds no runs until it is resumed", call: change(false) } : { name: "Resume", call: change(true) },
      { name: "Delete", danger: true, call: () => removal("the cron", () => remove(path`/runs/crons/${id}`)) },
    ];
  },
};

const labels = (text) => text.split(".").map((label) => label.trim()).filter(Boolean);

const items = {
  label: "Store", noun: "item", search: "Namespace, as in users.ann",
  async page(text, limit, offset) {
    const { items } = await post("/store/items/search", { namespace_prefix: labels(text), limit, offset });
    return items;
  },
  id: ({ namespace, key }) => JSON.stringify([namespace, key]),
  row: (item) => ({ name: item.key, about: [item.namespace.join("."), moment(item.updated_at)].join(" · ") }),
  shown: (item) => item.value,
  actions(item) {
    const { namespace, key } = item;
    return [
      { name: "Edit", title: "Writes another value", async call() {
        // Read again, because it may have changed since the list was read.
        const now = await get(`/store/items?${new URLSearchParams({ namespace: namespace.join("."), key })}`);
        const given = await write(`${namespace.join(".")} / ${key}`, [], now?.value ?? item.value);
        if (!given) return undefined;
        await put("/store/items", { namespace, key, value: given[0] });
        return true;
      } },
      { name: "Delete", danger: true, call: () => removal(`the item ${key}`, () => remove("/store/items", { namespace, key })) },
    ];
  },
  async create() {
    const given = await write("A new item", ["Namespace", "Key"], {});
    if (!given) return undefined;
    const [value, namespace, key] = given;
    await put("/store/items", { namespace: labels(namespace), key, value });
    return true;
  },
};

export const KINDS = { assistants, crons, store: items };
