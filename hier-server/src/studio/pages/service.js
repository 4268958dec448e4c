// The kinds of records that a server keeps beside threads: how they are listed, told and changed.
//
// A kind has `label` and `noun`; `search`, what can be typed in to find some, if anything; `page(text, limit, offset)`, which reads
// records; `id`, `row` and `shown`, what of a record tells it from others, stands in its row and is shown whole; `actions(record)`, what can
// be done with it; and perhaps `create()`. What is done resolves to nothing if it was called off.

import { dialog, h, moment, say } from "./dom.js";
import { get, patch, path, post, put, remove } from "./api.js";
import { strict } from "./form.js";
import { removal } from "./records.js";

function labelled(name, input) {
  return h("div", { class: "field" }, h("label", {}, name), input);
}

// A dialog for JSON, with fields of text above it.
async function write(title, fields, value) {
  const inputs = fields.map((name) => [name, h("input", { type: "text", required: true, "aria-label": name })]);
  const text = h("textarea", { rows: 12, spellcheck: false, "aria-label": "Value as JSON", value: JSON.stringify(value, null, 2) });
  const body = h("div", { class: "fields" }, inputs.map(([name, input]) => labelled(name, input)), text);
  return dialog(title, body, {
    ok: "Write",
    read: () => [strict(text.value, "value"), ...inputs.map(([, input]) => input.value.trim())],
  });
}

// How many versions of an assistant can be chosen from.
const VERSIONS = 100;

const system = (assistant) => assistant.metadata?.created_by === "system";

// What runs are configured by. The server keeps the context as `configurable`, too: it is written once, so that the two cannot differ.
function configuration({ config, context }) {
  const { configurable, ...rest } = config;
  return JSON.stringify(configurable ?? {}) === JSON.stringify(context ?? {}) ? { config: rest, context } : { config, context };
}

const assistants = {
  label: "Assistants", noun: "assistant", search: "Part of the name",
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
        say(`version ${version} is used from now on`);
        return true;
      },
    };
    const edit = {
      name: "Edit", title: "Makes a new version with another configuration",
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
        // As it is now: somebody may have changed it since the list was read.
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
