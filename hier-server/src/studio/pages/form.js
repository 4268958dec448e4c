// Forms from JSON Schemas. Parts that no field fits are written as JSON.

import { h } from "./dom.js";

let made = 0;

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
    return { schema: {}, optional: rest.length < either.length };
  }
  if (Array.isArray(schema.type)) {
    const rest = schema.type.filter((type) => type !== "null");
    return { schema: { ...schema, type: rest.length === 1 ? rest[0] : undefined }, optional: rest.length < schema.type.length };
  }
  return { schema, optional: false };
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
function field(name, given, root, required) {
  const { schema, optional } = resolved(given, root);
  const id = `field${(made += 1)}`;
  const label = h("label", { for: id }, name, required && !optional && h("span", { class: "required" }, " *"));
  const about = schema.description && h("p", { class: "about" }, schema.description);
  const whole = (input) => h("div", { class: "field" }, label, input, about);
  const missing = () => {
    if (required && !optional) throw new Error(`${name} is required`);
  };
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
export function form(schema, name, { partial = false } = {}) {
  const { schema: whole } = resolved(schema ?? {}, schema ?? {});
  const names = whole.type === "object" && whole.properties ? Object.keys(whole.properties) : null;
  if (!names || names.length === 0) {
    const one = field(name, whole, schema, true);
    return { element: h("div", { class: "fields" }, one.element), read: one.read };
  }
  const needs = partial ? [] : whole.required ?? [];
  const fields = names.map((key) => [key, field(key, whole.properties[key], schema, needs.includes(key))]);
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
