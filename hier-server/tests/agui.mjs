// The published client of AG-UI against the example `server`: a conversation, a question and its answer, a failure.
import assert from "node:assert/strict";
import { HttpAgent } from "@ag-ui/client";

const base = process.argv[2];
const agent = (graph, threadId, more = {}) => new HttpAgent({ url: `${base}/agui/${graph}`, threadId, ...more });

// Two turns: the client keeps the conversation and sends it whole.
const chat = agent("chat", "a chat");
chat.messages = [{ id: "u1", role: "user", content: "hello" }];
await chat.runAgent({ runId: "1" });
assert.deepEqual(chat.messages.map((message) => message.role), ["user", "assistant"]);
assert.equal(chat.messages[1].content, "You said: hello");
chat.messages.push({ id: "u2", role: "user", content: "again" });
await chat.runAgent({ runId: "2" });
assert.deepEqual(chat.messages.map((message) => message.content), ["hello", "You said: hello", "again", "You said: again"]);

// A question ends the run, and its answer continues it.
const desk = agent("tax_desk", "a case", { initialState: { income: 52000 } });
const steps = [];
let outcome;
const watch = {
    onStepStartedEvent: ({ event }) => void steps.push(event.stepName),
    onRunFinishedEvent: ({ event }) => void (outcome = event.outcome),
};
await desk.runAgent({ runId: "1" }, watch);
assert.equal(outcome.type, "interrupt");
assert.equal(outcome.interrupts.length, 1);
assert.equal(desk.state.tax, 3640);
const [{ id }] = outcome.interrupts;
await desk.runAgent({ runId: "2", resume: [{ interruptId: id, status: "resolved", payload: "yes" }] }, watch);
assert.equal(outcome.type, "success");
assert.deepEqual(desk.state.notes, ["a person said yes", "3640.00 filed"]);
assert.deepEqual(steps, ["assess", "review", "review", "file"]);

// A failure is the client's error.
const bad = agent("tax_desk", "a bad case", { initialState: { income: -1 } });
let failure;
await bad.runAgent({ runId: "1" }, { onRunErrorEvent: ({ event }) => void (failure = event) }).catch(() => {});
assert.match(failure.message, /an income is not negative/);
console.log("@ag-ui/client: passed");
