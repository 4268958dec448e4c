// Drives a server with LangGraph's JavaScript SDK, over all that it can do.
//
//     node hier-server/tests/clients/sdk.mjs target/debug/examples/compat_server [--db URL]

import assert from "node:assert/strict";

import { Client } from "@langchain/langgraph-sdk";
import { RemoteGraph } from "@langchain/langgraph/remote";
import { Command } from "@langchain/langgraph";

import { drive, gathered, served, until } from "./serve.mjs";

const names = (parts) => parts.map((part) => part.event);

async function assistants(client) {
    const system = await client.assistants.search({ graphId: "two" });
    assert.deepEqual(system.map((one) => one.metadata.created_by), ["system"]);
    const made = await client.assistants.create({ graphId: "two", context: { k: 1 }, metadata: { m: 1 }, name: "mine" });
    assert.deepEqual(made.config.configurable, { k: 1 });
    const id = made.assistant_id;
    assert.equal((await client.assistants.create({ graphId: "two", assistantId: id, ifExists: "do_nothing" })).name, "mine");
    await assert.rejects(client.assistants.create({ graphId: "two", assistantId: id }), /409/);
    assert.equal((await client.assistants.update(id, { metadata: { z: 2 }, name: "other" })).version, 2);
    assert.deepEqual((await client.assistants.getVersions(id)).map((one) => one.version), [2, 1]);
    assert.equal((await client.assistants.setLatest(id, 1)).name, "mine");
    assert.equal(await client.assistants.count({ graphId: "two" }), 2);
    const page = await client.assistants.search({ graphId: "two", limit: 1, includePagination: true });
    assert.equal(page.assistants.length, 1);
    assert.equal(page.next, "1");
    const drawn = await client.assistants.getGraph("sub", { xray: true });
    assert.ok(drawn.nodes.some((node) => node.id === "child:in1"), JSON.stringify(drawn));
    assert.ok("n" in (await client.assistants.getSchemas(id)).state_schema.properties);
    const [sub] = await client.assistants.search({ graphId: "sub" });
    assert.ok("child" in (await client.assistants.getSubgraphs(sub.assistant_id, { recurse: true })));
    await client.assistants.delete(id);
    await assert.rejects(client.assistants.get(id), /404/);
}

async function threads(client) {
    const { thread_id: id, status } = await client.threads.create({ metadata: { who: "js" } });
    assert.equal(status, "idle");
    await client.threads.update(id, { metadata: { b: 2 } });
    const end = await client.runs.wait(id, "two", { input: { n: 1 } });
    assert.deepEqual(end, { n: 4, log: ["a", "b"] });
    const state = await client.threads.getState(id);
    assert.deepEqual([state.values, state.next], [end, []]);
    const history = await client.threads.getHistory(id);
    assert.deepEqual(history.map((one) => one.metadata.step), [2, 1, 0, -1]);
    const older = await client.threads.getHistory(id, { before: { configurable: history[1].checkpoint } });
    assert.deepEqual(older.map((one) => one.metadata.step), [0, -1]);
    assert.deepEqual((await client.threads.getState(id, history[1].checkpoint)).values.log, ["a"]);
    await client.threads.updateState(id, { values: { n: 100 }, asNode: "a" });
    assert.equal((await client.runs.wait(id, "two", { input: null })).n, 200);
    // A fork of the past: what came later is not part of it.
    const forked = await client.runs.wait(id, "two", { input: null, checkpoint: history[1].checkpoint });
    assert.deepEqual(forked, { n: 4, log: ["a", "b"] });
    const copy = await client.threads.copy(id);
    assert.deepEqual((await client.threads.getState(copy.thread_id)).values, forked);
    assert.equal(await client.threads.count({ metadata: { who: "js" } }), 2);
    const found = await client.threads.search({ metadata: { who: "js" }, limit: 1, sortBy: "created_at", sortOrder: "asc" });
    assert.equal(found[0].thread_id, id);
    const supersteps = [
        { updates: [{ values: { n: 5 }, asNode: "__input__" }] },
        { updates: [{ values: { n: 6, log: ["x"] }, asNode: "a" }] },
    ];
    assert.deepEqual((await client.threads.create({ graphId: "two", supersteps })).values, { n: 6, log: ["x"] });
    await client.threads.prune([copy.thread_id], { strategy: "delete" });
    await client.threads.delete(id);
    await assert.rejects(client.threads.get(id), /404/);
}

async function runs(client) {
    const { thread_id: id } = await client.threads.create();
    const run = await client.runs.create(id, "slow", { input: { n: 0.3 }, metadata: { a: 1 } });
    assert.equal(run.status, "pending");
    const second = await client.runs.create(id, "slow", { input: { n: 0.01 } });
    await assert.rejects(client.runs.create(id, "slow", { input: { n: 0 }, multitaskStrategy: "reject" }), /409/);
    await client.runs.join(id, second.run_id);
    assert.deepEqual((await client.runs.list(id)).map((one) => one.status), ["success", "success"]);
    const long = await client.runs.create(id, "slow", { input: { n: 60 } });
    await client.runs.cancel(id, long.run_id, true);
    assert.equal((await client.runs.get(id, long.run_id)).status, "interrupted");
    await client.runs.delete(id, long.run_id);
    const batch = await client.runs.createBatch([0, 1, 2].map((n) => ({ assistantId: "two", input: { n } })));
    assert.equal(batch.length, 3);
    assert.equal((await client.runs.wait(null, "two", { input: { n: 1 } })).n, 4);
    const failed = (await client.threads.create()).thread_id;
    await assert.rejects(client.runs.wait(failed, "boom", { input: { n: 1 } }), /boom!/);
    assert.equal((await client.threads.get(failed)).status, "error");
}

async function streams(client) {
    const fresh = async () => (await client.threads.create()).thread_id;
    const told = async (graph, options) => gathered(client.runs.stream(await fresh(), graph, options));
    assert.deepEqual(names(await told("two", { input: { n: 1 }, streamMode: "values" })), ["metadata", ...Array(3).fill("values")]);
    const chat = { messages: [{ role: "user", content: "hi" }] };
    for (const streamMode of ["updates", "custom", "tasks", "checkpoints", "debug", "events", "messages", "messages-tuple"]) {
        const all = names(await told("chat", { input: chat, streamMode }));
        assert.ok(all[0] === "metadata" && !all.includes("error"), `${streamMode}: ${all}`);
    }
    const inner = names(await told("sub", { input: { n: 1 }, streamMode: "updates", streamSubgraphs: true }));
    assert.ok(inner.some((name) => name.startsWith("updates|child:")), String(inner));
    assert.equal((await told("boom", { input: { n: 1 } })).at(-1).event, "error");

    const id = await fresh();
    let created;
    const parts = await gathered(
        client.runs.stream(id, "hitl", { input: { n: 1 }, streamMode: ["values", "updates"], onRunCreated: (run) => (created = run) }),
    );
    assert.equal(created.thread_id, id);
    const [question] = parts.at(-1).data.__interrupt__;
    assert.deepEqual(question.value, { question: "ok?", n: 2 });
    assert.equal((await client.threads.get(id)).status, "interrupted");
    const end = await client.runs.wait(id, "hitl", { command: { resume: { [question.id]: "yes" } } });
    assert.deepEqual(end.log, ["a", "ask:yes", "b"]);

    const joined = await fresh();
    const run = await client.runs.create(joined, "two", { input: { n: 1 }, streamMode: ["values"], streamResumable: true });
    const all = await gathered(client.runs.joinStream(joined, run.run_id, { lastEventId: "-1" }));
    assert.deepEqual(names(all), ["metadata", ...Array(3).fill("values")]);
    assert.deepEqual(await gathered(client.runs.joinStream(joined, run.run_id, { lastEventId: all[1].id })), all.slice(2));
}

async function ofThreads(client) {
    const { thread_id: id } = await client.threads.create();
    const heard = [];
    const stop = new AbortController();
    const listening = (async () => {
        for await (const part of client.threads.joinStream(id, { streamMode: ["run_modes"], signal: stop.signal })) heard.push(part);
    })().catch((error) => {
        if (!stop.signal.aborted) throw error;
    });
    // The client cannot see that the stream is open, and a run that begins too early is not in it.
    await until("the run of the thread arrives", async () => {
        await client.runs.wait(id, "two", { input: { n: 1 } });
        return heard.some((part) => part.event === "metadata" && part.data.status === "run_done");
    });
    stop.abort();
    await listening;
    assert.ok(heard.some((part) => part.event === "values"));
}

async function store(client) {
    await client.store.putItem(["js", "1"], "k", { a: 1 });
    await client.store.putItem(["js", "2"], "k", { a: 2 });
    assert.deepEqual((await client.store.getItem(["js", "1"], "k")).value, { a: 1 });
    const found = await client.store.searchItems(["js"], { filter: { a: { $gt: 1 } } });
    assert.deepEqual(found.items.map((item) => item.namespace), [["js", "2"]]);
    assert.deepEqual((await client.store.listNamespaces({ prefix: ["js"] })).namespaces, [["js", "1"], ["js", "2"]]);
    await client.store.deleteItem(["js", "1"], "k");
    assert.equal(await client.store.getItem(["js", "1"], "k"), null);
}

/** How the root graph of a thread ended. */
async function ended(thread) {
    for await (const { params } of await thread.subscribe("lifecycle")) {
        const { event } = params.data;
        if (params.namespace.length === 0 && (event === "completed" || event === "failed")) return params.data;
    }
    throw new Error("the stream ended before the run");
}

/** The second protocol: a question and its answer, what a model says, and what fails. */
async function second(client, transport) {
    let thread = client.threads.stream({ assistantId: "hitl", transport });
    await thread.run.start({ input: { n: 1 } });
    await until("a question", () => thread.interrupted);
    const [asked] = thread.interrupts;
    assert.deepEqual(asked.payload, { question: "ok?", n: 2 });
    await thread.input.respond({ interrupt_id: asked.interruptId, namespace: asked.namespace, response: "yes" });
    assert.equal((await ended(thread)).event, "completed");
    assert.deepEqual((await client.threads.getState(thread.threadId)).values.log, ["a", "ask:yes", "b"]);
    await thread.close();

    thread = client.threads.stream({ assistantId: "two", transport });
    const output = thread.output;
    await thread.run.start({ input: { n: 1 } });
    assert.deepEqual(await output, { n: 4, log: ["a", "b"] });
    await thread.close();

    thread = client.threads.stream({ assistantId: "chat", transport });
    const spoken = (async () => {
        for await (const message of thread.messages) {
            let text = "";
            for await (const piece of message.text) text += piece;
            if (text) return text;
        }
    })();
    await thread.run.start({ input: { messages: [{ role: "user", content: "hi" }] } });
    assert.equal(await spoken, "Hello there friend");
    await thread.close();

    thread = client.threads.stream({ assistantId: "boom", transport });
    await thread.run.start({ input: { n: 1 } });
    const failed = await ended(thread);
    assert.equal(failed.event, "failed");
    assert.match(failed.error, /boom!/);
    await thread.close();
}

async function overEvents(client) {
    await second(client, "sse");
}

async function overWebSocket(client) {
    await second(client, "websocket");
}

async function remoteGraph(client) {
    const graph = new RemoteGraph({ graphId: "hitl", client });
    const { thread_id } = await client.threads.create();
    const config = { configurable: { thread_id } };
    await assert.rejects(graph.invoke({ n: 1 }, config), (error) => error.interrupts[0].value.question === "ok?");
    assert.deepEqual((await graph.getState(config)).next, ["ask"]);
    const end = await graph.invoke(new Command({ resume: "yes" }), config);
    assert.deepEqual(end.log, ["a", "ask:yes", "b"]);
    assert.equal((await gathered(graph.getStateHistory(config))).length, 5);
    await graph.updateState(config, { n: 7 }, "b");
    assert.equal((await graph.getState(config)).values.n, 7);
    const drawn = await graph.getGraphAsync();
    assert.ok("ask" in drawn.nodes);
    const updates = await gathered(await new RemoteGraph({ graphId: "two", client }).stream({ n: 1 }, { streamMode: "updates" }));
    assert.deepEqual(updates.map((update) => Object.keys(update)[0]), ["a", "b"]);
}

await served(async (url) => {
    const client = new Client({ apiUrl: url });
    await drive([assistants, threads, runs, streams, ofThreads, store, overEvents, overWebSocket, remoteGraph], client);
});
