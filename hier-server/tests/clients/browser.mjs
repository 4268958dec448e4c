// Drives a server with useStream of @langchain/react in a real Chromium, over both transports.
//
//     CHROMIUM=/usr/bin/chromium node .tools/clients/browser.mjs target/debug/examples/compat_server [--db URL]

import assert from "node:assert/strict";
import { createServer } from "node:http";

import { Client } from "@langchain/langgraph-sdk";
import { build } from "esbuild";
import { chromium } from "playwright-core";

import { drive, served } from "./serve.mjs";

const FAST_PAGES = 12;
const PATIENCE = 60_000;
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run"];

/**
 * Serves the page from an origin of its own: with the SDK that @langchain/react pins (`/`), and with the one of package.json (`/newer`).
 * The pinned one forgets the first checkpoint of each message, so that nobody can edit with it.
 */
async function pages() {
    const resolveDir = new URL(".", import.meta.url).pathname;
    const newer = {
        name: "newer",
        setup(build) {
            build.onResolve({ filter: /^@langchain\/langgraph-sdk/ }, ({ path, kind, pluginData }) =>
                pluginData === "newer" ? undefined : build.resolve(path, { resolveDir, kind, pluginData: "newer" }));
        },
    };
    const bundle = (plugins) => build({
        entryPoints: [new URL("page.mjs", import.meta.url).pathname],
        bundle: true,
        write: false,
        format: "esm",
        platform: "browser",
        plugins,
        define: { "process.env.NODE_ENV": '"production"' },
    });
    const bundles = await Promise.all([bundle([]), bundle([newer])]);
    const [pinned, replaced] = bundles.map((bundled) => bundled.outputFiles[0].text);
    const page = (script) => `<!doctype html><div id="root"></div><script type="module" src="${script}"></script>`;
    const files = { "/": page("/page.js"), "/newer": page("/newer.js"), "/page.js": pinned, "/newer.js": replaced };
    const host = createServer((request, response) => {
        const path = new URL(request.url, "http://localhost").pathname;
        response.setHeader("content-type", path.endsWith(".js") ? "text/javascript" : "text/html");
        response.end(files[path] ?? "");
    });
    await new Promise((resolve) => host.listen(0, "127.0.0.1", resolve));
    return { host, origin: `http://127.0.0.1:${host.address().port}` };
}

/** A fresh page; `ask` and `until` evaluate in it. */
async function opened({ context, origin, server, transport }, assistant, { thread, tools, path = "/" } = {}) {
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    const query = new URLSearchParams({ server, transport, assistant, ...(thread && { thread }), ...(tools && { tools }) });
    await page.goto(`${origin}${path}?${query}`);
    await page.waitForFunction(() => globalThis.page?.isShown);
    return page;
}

const settled = (page, condition) =>
    page.waitForFunction((condition) => {
        const { stream } = globalThis.page;
        return !stream.isLoading && new Function("stream", `return ${condition}`)(stream);
    }, condition);

const submit = (page, input, options) =>
    page.evaluate(([input, options]) => void globalThis.page.stream.submit(input, options), [input, options]);

/** Every page of a run that is over at once shows its end. */
async function shows_fast_runs(given) {
    for (let number = 0; number < FAST_PAGES; number += 1) {
        const page = await opened(given, "two");
        await submit(page, { n: 1 });
        await settled(page, "stream.values?.log?.length === 2").catch(async () => {
            const values = await page.evaluate(() => JSON.stringify(globalThis.page.stream.values));
            assert.fail(`page ${number + 1} of ${FAST_PAGES} shows ${values}`);
        });
        await page.close();
    }
}

async function uploads(given) {
    const blocks = [
        { type: "text", text: "with a picture" },
        { type: "image", mimeType: "image/png", data: "iVBORw0KGgo=", metadata: { name: "dot.png" } },
        { type: "file", mimeType: "application/pdf", data: "JVBERi0=", metadata: { filename: "a.pdf" } },
    ];
    const page = await opened(given, "chat");
    await submit(page, { messages: [{ type: "human", content: blocks }] });
    await settled(page, "stream.messages.some((message) => message.type === 'ai')");
    const kept = await page.evaluate(() => globalThis.page.stream.values.messages[0].content);
    assert.deepEqual(kept, blocks);
    await page.close();
}

async function edits(given) {
    const page = await opened(given, "chat", { path: "/newer" });
    await submit(page, { messages: [{ type: "human", content: "one" }] });
    await settled(page, "stream.messages.some((message) => message.type === 'tool')");
    await page.waitForFunction(() => globalThis.page.stream.messages.every((message) => globalThis.page.forks[message.id]));
    const { thread, forks, messages } = await page.evaluate(() => {
        const { thread, forks, stream } = globalThis.page;
        return { thread, forks, messages: stream.messages.map((message) => message.id) };
    });
    // Each message branches off before the step that brought it.
    const history = await new Client({ apiUrl: given.server }).threads.getHistory(thread, { limit: 100 });
    for (const id of messages) {
        const seen = history.findLast((state) => state.values.messages?.some((message) => message.id === id));
        assert.equal(forks[id], seen.parent_checkpoint.checkpoint_id, id);
    }
    const forkFrom = forks[messages[0]];
    await submit(page, { messages: [{ type: "human", content: "one edited" }] }, { forkFrom });
    await settled(page, "stream.messages.some((message) => message.content === 'one edited')");
    await settled(page, "stream.messages.some((message) => message.type === 'tool')");
    const said = await page.evaluate(() => globalThis.page.stream.messages.map((message) => message.content));
    assert.equal(said[0], "one edited");
    assert.ok(!said.includes("one"), said);
    await page.close();
}

async function approves(given) {
    const page = await opened(given, "hitl");
    await submit(page, { n: 1 });
    await settled(page, "stream.interrupt?.value?.question === 'ok?'");
    await page.evaluate(() => {
        const { stream } = globalThis.page;
        void stream.respond("yes", { interruptId: stream.interrupt.id });
    });
    await settled(page, "stream.values?.log?.includes('ask:yes') && stream.values.log.length === 3");
    await page.close();
}

async function reloads(given) {
    const page = await opened(given, "hitl");
    await submit(page, { n: 1 });
    await settled(page, "stream.interrupt?.value?.question === 'ok?'");
    const thread = await page.evaluate(() => globalThis.page.thread);
    await page.close();
    const again = await opened(given, "hitl", { thread });
    await settled(again, "stream.interrupt?.value?.question === 'ok?' && stream.values?.log?.length === 1");
    await again.close();
}

const order = (text) => ({ messages: [{ type: "human", content: text }] });
const PICKED = '{"name":"notes.md"}';

/** Waits for the agent's last message, and returns the tools that the page has run. */
async function done(page, text) {
    const shows = `globalThis.page.text(message) === ${JSON.stringify(`Done: ${text}`)}`;
    await settled(page, `stream.messages.some((message) => ${shows})`).catch(async () => {
        const { messages, error, ran } = await page.evaluate(() => {
            const { stream: { messages, error }, ran } = globalThis.page;
            return { messages: messages.map((message) => message.content), error: String(error), ran };
        });
        assert.fail(`expected ${text}: ${JSON.stringify({ messages, error, ran })}`);
    });
    const { error, ran } = await page.evaluate(() => ({ error: globalThis.page.stream.error, ran: globalThis.page.ran.splice(0) }));
    assert.equal(error, undefined);
    return ran;
}

/** One call, some next to a tool of the server, and one of a subagent. */
async function runs_tools(given) {
    const page = await opened(given, "helper", { tools: true });
    for (const [text, answer, ran] of [
        ["pick_file", PICKED, ["pick_file"]],
        ["weigh pick_file locate", `5 kg and ${PICKED} and Berlin`, ["pick_file", "locate"]],
        ["clerk", `Done: ${PICKED}`, ["pick_file"]],
    ]) {
        await submit(page, order(text));
        assert.deepEqual((await done(page, answer)).toSorted(), ran.toSorted());
    }
    await page.evaluate(() => (globalThis.page.fails = true));
    await submit(page, order("locate"));
    assert.deepEqual(await done(page, "Error: the user said no"), ["locate"]);
    await page.close();
}

/** The request brings the tools. */
async function brings_tools(given) {
    const page = await opened(given, "guest", { tools: true });
    const parameters = { type: "object", properties: {} };
    const config = { configurable: { client_tools: [{ name: "locate", description: "Locates the user.", parameters }] } };
    await submit(page, order("locate weigh"), { config });
    assert.deepEqual(await done(page, "Berlin and 5 kg"), ["locate"]);
    await page.close();
}

/** A thread that waits for tools of the client. */
async function asked(given, text) {
    const client = new Client({ apiUrl: given.server });
    const { thread_id: thread } = await client.threads.create();
    await client.runs.wait(thread, "helper", { input: order(text) });
    return { thread };
}

/** A page that is loaded while calls wait runs them. */
async function runs_waiting_tools_after_a_reload(given) {
    const { thread } = await asked(given, "pick_file locate");
    const again = await opened(given, "helper", { thread, tools: true });
    assert.deepEqual((await done(again, `${PICKED} and Berlin`)).toSorted(), ["locate", "pick_file"]);
    await again.close();
}

/** Two tabs load a thread that waits, and both run the call. One result counts, and a tab shows the answer or the refusal. */
async function runs_a_tool_in_two_tabs(given) {
    const { thread } = await asked(given, "locate");
    const tabs = await Promise.all([1, 2].map(() => opened(given, "helper", { thread, tools: true })));
    const shown = await Promise.all(tabs.map(async (tab) => {
        await settled(tab, "stream.error || stream.messages.some((message) => globalThis.page.text(message) === 'Done: Berlin')");
        return tab.evaluate(() => ({ ran: globalThis.page.ran, error: globalThis.page.stream.error?.message }));
    }));
    assert.ok(shown.some(({ error }) => error === undefined), JSON.stringify(shown));
    for (const { error } of shown) assert.match(error ?? "already-consumed", /already-consumed/);
    const { status, values } = await new Client({ apiUrl: given.server }).threads.get(thread);
    assert.equal(status, "idle");
    assert.equal(values.messages.filter((message) => message.type === "tool").length, 1);
    await Promise.all(tabs.map((tab) => tab.close()));
}

await served(async (server) => {
    const { host, origin } = await pages();
    const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
    try {
        const tools = [runs_tools, brings_tools, runs_waiting_tools_after_a_reload];
        const parts = [shows_fast_runs, uploads, edits, approves, reloads, ...tools, runs_a_tool_in_two_tabs];
        for (const [transport, driven] of [["websocket", parts], ["sse", parts], ["runs", tools]]) {
            console.log(`Chromium, ${transport}`);
            const context = await browser.newContext();
            await drive(driven, { context, origin, server, transport });
            await context.close();
        }
    } finally {
        await browser.close();
        host.close();
    }
});
