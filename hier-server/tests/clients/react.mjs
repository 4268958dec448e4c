// Drives a server with useStream, as a page does: that of @langchain/langgraph-sdk/react (the first protocol) and that of
// @langchain/react (the second, over server-sent events and WebSocket).
//
//     node hier-server/tests/clients/react.mjs target/debug/examples/compat_server [--db URL]

import assert from "node:assert/strict";

import { Client } from "@langchain/langgraph-sdk";
import { JSDOM } from "jsdom";

import { drive, served, until } from "./serve.mjs";

const page = new JSDOM("<!doctype html><div id=root></div>", { url: "http://localhost/" }).window;
for (const name of ["document", "navigator", "sessionStorage"]) {
    Object.defineProperty(globalThis, name, { value: page[name], configurable: true });
}
globalThis.window = page;

// They look for a page when they are loaded.
const { createElement, useEffect } = await import("react");
const { createRoot } = await import("react-dom/client");
const { useStream: useRunStream } = await import("@langchain/langgraph-sdk/react");
const { useStream: useThreadStream } = await import("@langchain/react");

/** Mounts a component that uses the hook; `now()` is what the hook returned last. */
async function mount(hook, options) {
    let last;
    let isShown = false;
    const Probe = () => {
        last = hook(options);
        // After the effects of the hook, because a user cannot click earlier.
        useEffect(() => void (isShown = true), []);
        return createElement("p", null, JSON.stringify(last.values));
    };
    const root = createRoot(page.document.getElementById("root"));
    root.render(createElement(Probe));
    await until("the component is shown", () => isShown);
    return { now: () => last, unmount: () => root.unmount() };
}

async function mounted(hook, options, use) {
    const probe = await mount(hook, options);
    try {
        await use(probe.now);
    } finally {
        probe.unmount();
    }
}

const hi = { messages: [{ type: "human", content: "hi" }] };
/** The text of a message: as one, or in blocks. */
const text = ({ content }) => (typeof content === "string" ? content : content.map((block) => block.text ?? "").join(""));
const spoken = (messages) => messages.some((message) => message.type === "ai" && text(message) === "Hello there friend");

/** The runs of a thread. A page gives its thread a name before the server knows it. */
async function runsOf(client, thread) {
    if (!thread) return [];
    return client.runs.list(thread).catch((error) => {
        if (error.status === 404) return [];
        throw error;
    });
}

const parts = {
    async chats({ hook, common, client }) {
        let thread;
        await mounted(hook, { ...common, assistantId: "paced", onThreadId: (id) => (thread = id) }, async (now) => {
            // The hook asks the server for messages only if the page has read them before it submits.
            assert.deepEqual(now().messages, []);
            void now().submit(hi);
            // The model says its next word when the page shows those before it.
            let heard = "";
            for (const word of ["Hello ", "there ", "friend"]) {
                assert.ok((await fetch(`${common.apiUrl}/internal/say`, { method: "POST" })).ok);
                heard += word;
                await until(`the page shows '${heard}'`, () =>
                    now().messages.some((message) => message.type === "ai" && text(message) === heard));
            }
            await until("the message is whole", () => spoken(now().messages) && !now().isLoading);
        });
        await until("the thread is idle", async () => (await client.threads.get(thread)).status === "idle");
    },

    async answers({ hook, common, answer }) {
        await mounted(hook, { ...common, assistantId: "hitl" }, async (now) => {
            void now().submit({ n: 1 });
            await until("a question", () => now().interrupt);
            assert.deepEqual(now().interrupt.value, { question: "ok?", n: 2 });
            await until("it waits", () => !now().isLoading);
            void answer(now(), "yes");
            await until("the end", () => now().values?.log?.length === 3 && !now().isLoading);
            assert.deepEqual(now().values.log, ["a", "ask:yes", "b"]);
            assert.equal(now().interrupt, undefined);
            // A second turn of the same thread asks anew.
            void now().submit({ n: 5 });
            await until("another question", () => now().interrupt);
            void answer(now(), "no");
            await until("the second end", () => now().values?.log?.includes("ask:no") && !now().isLoading);
        });
    },

    async failures({ hook, common }) {
        await mounted(hook, { ...common, assistantId: "boom" }, async (now) => {
            now().submit({ n: 1 })?.catch?.(() => {});
            await until("an error", () => now().error);
            assert.match(String(now().error?.message ?? now().error), /boom!/);
            await until("it does not load", () => !now().isLoading);
        });
    },

    async stops({ hook, common, client }) {
        let thread;
        await mounted(hook, { ...common, assistantId: "slow", onThreadId: (id) => (thread = id) }, async (now) => {
            now().submit({ n: 60 })?.catch?.(() => {});
            const runs = () => runsOf(client, thread);
            await until("the run is running", async () => (await runs())[0]?.status === "running" && now().isLoading);
            await until("its first step arrives", () => now().values?.log?.length === 1);
            await now().stop();
            await until("it does not load", () => !now().isLoading);
            await until("the run is cancelled", async () => (await runs())[0].status === "interrupted");
            assert.deepEqual(now().values.log, ["pre"]);
        });
    },

    /** A page that is loaded again while a run is being done goes on with its stream. */
    async reconnects({ hook, common, client }) {
        let thread;
        const options = { ...common, assistantId: "slow", onThreadId: (id) => (thread = id) };
        const first = await mount(hook, options);
        first.now().submit({ n: 1.5 }, { onDisconnect: "continue", streamResumable: true })?.catch?.(() => {});
        await until("its first step arrives", () => first.now().values?.log?.length === 1);
        first.unmount();
        await mounted(hook, { ...options, threadId: thread }, async (now) => {
            await until("the end on the second page", () => now().values?.log?.length === 2 && !now().isLoading);
        });
        const runs = await client.runs.list(thread);
        assert.deepEqual(runs.map((run) => run.status), ["success"]);
    },

    /** A thread of before is shown as it is, with what it asks. */
    async hydrates({ hook, common, client, answer }) {
        const { thread_id: threadId } = await client.threads.create();
        await client.runs.wait(threadId, "hitl", { input: { n: 1 } });
        await mounted(hook, { ...common, assistantId: "hitl", threadId }, async (now) => {
            await until("what is asked", () => now().interrupt?.value?.question === "ok?" && now().values?.log?.length === 1);
            void answer(now(), "later");
            await until("the end", () => now().values?.log?.includes("ask:later") && !now().isLoading);
        });
    },
};

async function branches({ common, client }) {
    const options = { ...common, assistantId: "chat", fetchStateHistory: { limit: 100 } };
    await mounted(useRunStream, options, async (now) => {
        now().submit(hi);
        await until("the message is whole", () => spoken(now().messages) && !now().isLoading && now().history.length > 2);
        const asked = now().messages.find((message) => message.type === "human");
        const { firstSeenState } = now().getMessagesMetadata(asked);
        assert.ok(firstSeenState.parent_checkpoint, "the message is edited from the checkpoint before it");
        now().submit({ messages: [{ type: "human", content: "hello" }] }, { checkpoint: firstSeenState.parent_checkpoint });
        await until("the edited message", () => now().messages[0]?.content === "hello" && spoken(now().messages) && !now().isLoading);
        await until("both branches", () => now().getMessagesMetadata(now().messages[0])?.branchOptions?.length === 2);
    });
    assert.ok((await client.threads.search({ limit: 1 })).length === 1);
}

async function queues({ common, client }) {
    let thread;
    await mounted(useThreadStream, { ...common, assistantId: "slow", onThreadId: (id) => (thread = id) }, async (now) => {
        void now().submit({ n: 0.4 });
        await until("it loads", () => thread && now().isLoading);
        void now().submit({ n: 0.1 }, { multitaskStrategy: "enqueue" });
        await until("both are done", async () => {
            const runs = await runsOf(client, thread);
            return runs.length === 2 && runs.every((run) => run.status === "success") && !now().isLoading;
        });
    });
}

await served(async (apiUrl) => {
    const client = new Client({ apiUrl });
    const resume = (stream, answer) => stream.submit(undefined, { command: { resume: answer } });
    const respond = (stream, answer) => stream.respond(answer, { interruptId: stream.interrupt.id });
    const kinds = [
        ["the first protocol", { hook: useRunStream, common: { apiUrl, reconnectOnMount: true }, answer: resume }, [branches]],
        ["the second, events", { hook: useThreadStream, common: { apiUrl }, answer: respond }, [queues]],
        ["the second, WebSocket", { hook: useThreadStream, common: { apiUrl, transport: "websocket" }, answer: respond }, [queues]],
    ];
    // The page shows the error of a run, and logs it to the console.
    console.error = () => {};
    for (const [name, kind, own] of kinds) {
        console.log(name);
        await drive([...Object.values(parts), ...own], { ...kind, client });
    }
});
// The page has its own timers.
page.close();
