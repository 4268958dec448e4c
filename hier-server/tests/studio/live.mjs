// Counts the tasks of a node in the live view. scripts/peers.sh studio calls it.

import assert from "node:assert/strict";
import test from "node:test";

// The page has both.
globalThis.document = { baseURI: "http://localhost/studio/" };
globalThis.sessionStorage = { getItem: () => null };
const { Live } = await import("../../src/studio/pages/live.js");

const HANDLER = "__error_handler__risky";
const started = (name, id) => ({ id, name, triggers: ["start"] });
const ended = (name, id, more) => ({ id, name, error: null, interrupts: [], ...more });
const failed = (name, id) => ended(name, id, { error: "too risky" });

// Returns the count of the node after these events of tasks.
function live(...tasks) {
  const live = new Live({ change: () => {}, connection: () => {} });
  const take = (mode, data, at) => live.take({ run: "r", ns: [], mode, data, at });
  take("start", {}, 0);
  tasks.forEach((task, at) => take("tasks", task, at));
  const { running, count, failed, asking } = live.stats.get(JSON.stringify(["risky"]));
  assert.equal(live.stats.size, 1);
  return { running, count, failed, asking };
}

test("a handler ends after its failed node", () => {
  const failure = [started("risky", 1), failed("risky", 1)];
  assert.deepEqual(live(...failure), { running: 0, count: 1, failed: true, asking: false });
  assert.deepEqual(live(...failure, ended(HANDLER, 1)), { running: 0, count: 1, failed: false, asking: false });
  assert.deepEqual(live(...failure, failed(HANDLER, 1)), { running: 0, count: 1, failed: true, asking: false });
});

test("a handler asks, and ends in the next run", () => {
  const asks = ended(HANDLER, 1, { interrupts: [{ id: "q", value: "what now?" }] });
  const asked = [started("risky", 1), failed("risky", 1), asks];
  assert.deepEqual(live(...asked), { running: 0, count: 1, failed: false, asking: true });
  assert.deepEqual(live(started("risky", 1), ended(HANDLER, 1)), { running: 0, count: 1, failed: false, asking: false });
});

test("a task that ends does not hide another that fails or asks", () => {
  const both = [started("risky", 1), started("risky", 2)];
  assert.deepEqual(live(...both, failed("risky", 1)), { running: 1, count: 1, failed: true, asking: false });
  assert.deepEqual(live(...both, failed("risky", 1), failed(HANDLER, 1), failed("risky", 2), ended(HANDLER, 2)),
    { running: 0, count: 2, failed: true, asking: false });
  const asks = ended("risky", 1, { interrupts: [{ id: "q", value: "ok?" }] });
  assert.deepEqual(live(...both, asks, ended("risky", 2)), { running: 0, count: 2, failed: false, asking: true });
});

test("a view that opens in the middle counts the ends", () => {
  assert.deepEqual(live(ended("risky", 1), ended("risky", 2)), { running: 0, count: 2, failed: false, asking: false });
});
