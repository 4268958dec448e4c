// Forms from JSON Schemas. Parts that no field fits are written as JSON.

import { h } from "./dom.js";

let made = 0;

// The number of nested objects and enums that have their own fields.
const DEPTH = 3;

// Returns a schema without references, and whether null is allowed.
function resolved(schema, root, depth = 0) {
  if (depth > 8 || schema === null || typeof schema !== "object") return { schema: {}, optional: true };
  if (typeof schema.$ref === "string") {
    const steps = schema.$ref.replace(/^#\/?/, "").split("/").filter(Boolean);
    const target = steps.reduce((at, step) => (at && Object.hasOwn(at, step) ? at[step] : undefined), root);
    return resolved(target ?? {}, root, depth + 1);
  }
  const either = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(either)) {
    const rest = either.filter((one) => one?.type !== "null");
    if (rest.length === 1) {
      const inner = resolved(rest[0], root, depth + 1);
      return { schema: { ...inner.schema, description: schema.description ?? inner.schema.description }, optional: rest.length < either.length || inner.optional };
    }
    const constants = rest.map((one) => one?.const);
    if (constants.every((value) => typeof value === "string")) return { schema: { ...schema, enum: constants }, optional: rest.length < either.length };
    const flat = rest.flatMap((one) => (Array.isArray(one?.enum) ? one.enum.map((value) => ({ const: value })) : [one]));
    const choices = flat.map((one) => ({ ...resolved(one, root, depth + 1).schema, description: one?.description }));
    const named = choices.every((one) => choiceName(one) !== undefined);
    return { schema: named ? { description: schema.description, choices } : {}, optional: rest.length < either.length };
  }
  if (Array.isArray(schema.type)) {
    const rest = schema.type.filter((type) => type !== "null");
    return { schema: { ...schema, type: rest.length === 1 ? rest[0] : undefined }, optional: rest.length < schema.type.length };
  }
  return { schema, optional: false };
}

// The name of a variant: its constant, the constant of one of its fields, or its only field. Undefined for other schemas.
function choiceName(schema) {
  if (typeof schema.const === "string") return schema.const;
  const fields = Object.entries(schema.properties ?? {});
  const tag = fields.find(([, field]) => typeof field?.const === "string");
  if (tag) return tag[1].const;
  return fields.length === 1 && (schema.required ?? []).includes(fields[0][0]) ? fields[0][0] : undefined;
}

// The variants of an enum: a list of their names, and the fields of the selected one.
function variants(id, schema, root, depth, may) {
  const place = h("div", {});
  let inner = null;
  const choose = () => {
    const chosen = schema.choices[Number(input.value)];
    inner = input.value === "" || chosen.const !== undefined ? null : form(chosen, choiceName(chosen), { root, depth: depth + 1 });
    place.replaceChildren(...(inner ? [inner.element] : []));
  };
  const input = h("select", { id, onchange: () => choose() }, may && h("option", { value: "" }, "—"),
    schema.choices.map((one, index) => h("option", { value: index }, choiceName(one))));
  choose();
  const read = () => (inner ? inner.read() : schema.choices[Number(input.value)].const);
  return { element: h("div", {}, input, place), isEmpty: () => input.value === "", read };
}

// Parses text as JSON, or returns the text.
export function loose(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function strict(text, what) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what}: ${error.message}`);
  }
}

// A field: its element, and `read()`, which returns undefined for an omitted value.
function field(name, given, root, required, depth) {
  const { schema, optional } = resolved(given, root);
  if (schema.const !== undefined) return { element: h("input", { type: "hidden" }), read: () => schema.const };
  const id = `field${(made += 1)}`;
  const label = h("label", { for: id }, name, required && !optional && h("span", { class: "required" }, " *"));
  const about = schema.description && h("p", { class: "about" }, schema.description);
  const whole = (input) => h("div", { class: "field" }, label, input, about);
  const missing = () => {
    if (required && !optional) throw new Error(`${name} is required`);
  };
  if (schema.choices && depth < DEPTH) {
    const list = variants(id, schema, root, depth, !required || optional);
    return { element: whole(list.element), read: () => (list.isEmpty() ? missing() : list.read()) };
  }
  if (schema.type === "object" && schema.properties && required && !optional && depth < DEPTH) {
    const inner = form(schema, name, { root, depth: depth + 1 });
    return { element: whole(inner.element), read: inner.read };
  }
  if (Array.isArray(schema.enum)) {
    const input = h("select", { id }, (!required || optional) && h("option", { value: "" }, "—"),
      schema.enum.map((value, index) => h("option", { value: index }, String(value))));
    return { element: whole(input), read: () => (input.value === "" ? missing() : schema.enum[Number(input.value)]) };
  }
  if (schema.type === "boolean") {
    const input = h("select", { id }, (!required || optional) && h("option", { value: "" }, "—"), h("option", { value: "true" }, "yes"), h("option", { value: "false" }, "no"));
    return { element: whole(input), read: () => (input.value === "" ? missing() : input.value === "true") };
  }
  if (schema.type === "number" || schema.type === "integer") {
    const input = h("input", { id, type: "number", step: schema.type === "integer" ? 1 : "any", value: schema.default ?? "" });
    return { element: whole(input), read: () => (input.value === "" ? missing() : input.valueAsNumber) };
  }
  if (schema.type === "string") {
    const input = h("textarea", { id, rows: 1, value: schema.default ?? "" });
    return { element: whole(input), read: () => (input.value === "" && !required ? undefined : input.value) };
  }
  const known = schema.type !== undefined;
  const input = h("textarea", { id, rows: known ? 2 : 1, placeholder: known ? `JSON: ${schema.type}` : "text or JSON", spellcheck: false });
  return {
    element: whole(input),
    read: () => {
      if (input.value.trim() === "") return missing();
      return known ? strict(input.value, name) : loose(input.value);
    },
  };
}

// A form for values of a schema. An object with names becomes one field per name, everything else a single field. All names of a partial
// object are optional.
export function form(schema, name, { partial = false, root = schema ?? {}, depth = 0 } = {}) {
  const { schema: whole } = resolved(schema ?? {}, root);
  const names = whole.type === "object" && whole.properties ? Object.keys(whole.properties) : null;
  if (!names || names.length === 0) {
    const one = field(name, whole, root, true, depth);
    return { element: h("div", { class: "fields" }, one.element), read: one.read };
  }
  const needs = partial ? [] : whole.required ?? [];
  const fields = names.map((key) => [key, field(key, whole.properties[key], root, needs.includes(key), depth)]);
  return {
    element: h("div", { class: "fields" }, fields.map(([, one]) => one.element)),
    read: () => {
      const value = {};
      for (const [key, one] of fields) {
        const read = one.read();
        if (read !== undefined) value[key] = read;
      }
      return value;
    },
  };
}
