// The differences between two values, as a tree of marks.
//
// A mark is `{kind, old, inside}`: `added`, `removed`, `changed` (with the old value), or `inside` with the marks of the parts by
// name. Unchanged values have no mark.

const isTree = (value) => value !== null && typeof value === "object";

export function diff(before, after) {
  if (before === after) return null;
  if (before === undefined) return { kind: "added" };
  if (after === undefined) return { kind: "removed", old: before };
  if (!isTree(before) || !isTree(after) || Array.isArray(before) !== Array.isArray(after)) {
    return { kind: "changed", old: before };
  }
  const inside = new Map();
  const look = (name) => {
    const mark = diff(own(before, name), own(after, name));
    if (mark) inside.set(String(name), mark);
  };
  if (Array.isArray(after)) {
    for (let index = 0; index < Math.max(before.length, after.length); index += 1) look(index);
  } else {
    for (const name of Object.keys(after)) look(name);
    for (const name of Object.keys(before)) if (!Object.hasOwn(after, name)) look(name);
  }
  return inside.size ? { kind: "inside", inside } : null;
}

export const own = (object, name) => (Object.hasOwn(object, name) ? object[name] : undefined);

// Counts the changed parts, up to a limit.
export function changes(mark, bound = 10000) {
  if (!mark) return 0;
  if (mark.kind !== "inside") return 1;
  let count = 0;
  for (const part of mark.inside.values()) {
    count += changes(part, bound - count);
    if (count >= bound) return bound;
  }
  return count;
}
