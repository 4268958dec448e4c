// Runs tools in the client: with AG-UI's client, alone and as an agent of CopilotKit.
//
//     node .tools/clients/client_tools.mjs target/debug/examples/compat_server [--db URL]

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";

import { HttpAgent } from "@ag-ui/client";
import { JSDOM } from "jsdom";
import { z } from "zod";

import { run, said, withCopilotKit } from "./agui.mjs";
import { drive, served, until } from "./serve.mjs";

globalThis.window = new JSDOM("", { url: "http://localhost/" }).window;
// It connects only in a page.
const { CopilotKitCore } = await import("@copilotkit/core");
// The version that CopilotKit's runtime pins.
const { HttpAgent: PinnedHttpAgent } = createRequire(createRequire(import.meta.url).resolve("@copilotkit/runtime/v2"))("@ag-ui/client");

const PICKED = '{"name":"notes.md"}';

/** The tools of a client, and the calls that it has run. */
function clientTools() {
    const ran = [];
    const tools = {
        pick_file: ({ kind }) => ({ content: JSON.stringify({ name: `notes.${kind}` }) }),
        locate: () => ({ content: "Berlin" }),
    };
    const run = (call) => {
        const { name, arguments: args } = call.function;
        ran.push(call.id);
        return tools[name](JSON.parse(args || "{}"));
    };
    return { tools, ran, run };
}

const lastText = (agent) => agent.messages.at(-1).content;

/** The calls of the conversation without a result. */
function waiting({ messages }) {
    const results = new Set(messages.filter((message) => message.role === "tool").map((message) => message.toolCallId));
    return messages.flatMap((message) => message.toolCalls ?? []).filter((call) => !results.has(call.id));
}

/** Sends a message, and runs the client's tools until the agent calls none. */
async function converse(agent, text, { tools, run: runTool } = clientTools(), given = {}) {
    agent.addMessage(said(text));
    const events = [...await run(agent, given)];
    for (;;) {
        const calls = waiting(agent).filter((call) => tools[call.function.name]);
        if (calls.length === 0) return events;
        for (const call of calls) {
            agent.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, ...runTool(call) });
        }
        events.push(...await run(agent, given));
    }
}

const helper = ({ url }, more = {}) => new HttpAgent({ url: `${url}/agui/helper`, threadId: randomUUID(), ...more });

async function agui_runs_tools(given) {
    const [agent, browser] = [helper(given), clientTools()];
    for (const turn of [1, 2]) {
        await converse(agent, "pick_file", browser);
        assert.equal(lastText(agent), `Done: ${PICKED}`);
        assert.equal(browser.ran.length, turn);
    }
    const roles = agent.messages.map((message) => message.role);
    assert.deepEqual(roles, [...Array(2)].flatMap(() => ["user", "assistant", "tool", "assistant"]));
}

async function agui_runs_tools_next_to_the_servers(given) {
    const [agent, browser] = [helper(given), clientTools()];
    const events = await converse(agent, "weigh pick_file locate", browser);
    assert.equal(lastText(agent), `Done: 5 kg and ${PICKED} and Berlin`);
    assert.equal(browser.ran.length, 2);
    const results = events.filter((event) => event.type === "TOOL_CALL_RESULT");
    assert.equal(results.length, 1, "the server sends the result of its own tool, once");
    assert.equal(new Set(agent.messages.map((message) => message.id)).size, agent.messages.length);
}

async function agui_runs_tools_of_subagents(given) {
    const [agent, browser] = [helper(given), clientTools()];
    await converse(agent, "clerk", browser);
    assert.equal(lastText(agent), `Done: Done: ${PICKED}`);
    assert.equal(browser.ran.length, 1);
    assert.ok(!agent.messages.some((message) => message.id.startsWith("client-call:")), "the thread's conversation remains");
}

/** The request brings the tools. */
async function agui_brings_tools({ url }) {
    const agent = new HttpAgent({ url: `${url}/agui/guest`, threadId: randomUUID() });
    const declared = (name, properties = {}) => ({ name, description: `The tool ${name}.`, parameters: { type: "object", properties } });
    const tools = [declared("pick_file", { kind: { type: "string" } }), declared("locate")];
    await converse(agent, "locate weigh pick_file", clientTools(), { tools });
    assert.equal(lastText(agent), `Done: Berlin and 5 kg and ${PICKED}`);
}

async function agui_reports_failures(given) {
    const [agent, browser] = [helper(given), clientTools()];
    browser.tools.locate = () => ({ content: "", error: "the user said no" });
    await converse(agent, "locate", browser);
    assert.equal(lastText(agent), "Done: Error: the user said no");
}

/** The page answers one call first, and the other later. */
async function agui_answers_one_by_one(given) {
    const [agent, { tools, run: runTool }] = [helper(given), clientTools()];
    await converse(agent, "pick_file locate", { tools: { pick_file: tools.pick_file }, run: runTool });
    assert.deepEqual(waiting(agent).map((call) => call.function.name), ["locate"]);
    const [call] = waiting(agent);
    agent.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content: "Berlin" });
    await run(agent);
    assert.equal(lastText(agent), `Done: ${PICKED} and Berlin`);
}

/** A tool that changes the shared state sends the change with its result. */
async function agui_changes_the_state_with_a_result(given) {
    const [agent, browser] = [helper(given), clientTools()];
    browser.tools.locate = () => {
        agent.setState({ ...agent.state, theme: "dark" });
        return { content: "Berlin" };
    };
    await converse(agent, "locate", browser);
    assert.equal(lastText(agent), "Done: Berlin");
    assert.equal(agent.state.theme, "dark");
    await converse(agent, "weigh", browser);
    assert.equal(agent.state.theme, "dark", "it is stored");
}

/** Three tabs run the same call, two of them at once. One result counts. */
async function agui_refuses_the_results_of_other_tabs(given) {
    const threadId = randomUUID();
    const [first, second, late] = [1, 2, 3].map(() => helper(given, { threadId }));
    first.addMessage(said("locate"));
    await run(first);
    const [{ id: toolCallId }] = waiting(first);
    for (const [agent, content] of [[second, "Rome"], [late, "Oslo"], [first, "Berlin"]]) {
        agent.setMessages(first.messages);
        agent.addMessage({ id: randomUUID(), role: "tool", toolCallId, content });
    }
    // If the server accepts both requests before the first run begins, the later run drops its result.
    const ended = await Promise.allSettled([run(first), run(second)]);
    for (const { reason } of ended.filter((end) => end.status === "rejected")) {
        assert.match(String(reason), /TOOL_RESULT_UNEXPECTED/);
    }
    const winner = [first, second].find((agent) => /^Done: (Berlin|Rome)$/.test(lastText(agent)));
    assert.ok(winner, "one result counts");
    await assert.rejects(run(late), /TOOL_RESULT_UNEXPECTED/);
    await converse(winner, "weigh");
    assert.equal(lastText(winner), "Done: 5 kg");
}

/** The graphs as AG-UI agents of CopilotKit's runtime. */
function pinnedAgents({ url }) {
    const graphs = ["helper", "guest"];
    return Object.fromEntries(graphs.map((graph) => [graph, new PinnedHttpAgent({ url: `${url}/agui/${graph}` })]));
}

async function copilotkit_runs_tools(given) {
    await withCopilotKit(pinnedAgents(given), async (runtimeUrl) => {
        const ran = [];
        const tool = (name, parameters, handler) => ({
            name, description: `The tool ${name}.`, parameters,
            handler: async (args) => (ran.push(name), handler(args)),
        });
        const tools = [
            tool("pick_file", z.object({ kind: z.string() }), ({ kind }) => ({ name: `notes.${kind}` })),
            tool("locate", z.object({}), () => "Berlin"),
        ];
        const fails = tool("pick_file", z.object({ kind: z.string() }), () => Promise.reject(new Error("the user said no")));
        const copilot = new CopilotKitCore({ runtimeUrl, tools });
        const failures = [];
        copilot.subscribe({ onError: ({ error, code }) => void failures.push(`${code}: ${error}`) });
        copilot.connect();
        const agent = await until("the runtime is connected", () => copilot.getAgent("helper"));
        agent.threadId = randomUUID();
        for (const [text, end] of [
            ["pick_file", `Done: ${PICKED}`],
            ["weigh pick_file locate", `Done: 5 kg and ${PICKED} and Berlin`],
            ["clerk", `Done: Done: ${PICKED}`],
        ]) {
            agent.addMessage(said(text));
            await copilot.runAgent({ agent });
            assert.deepEqual(failures, []);
            assert.equal(lastText(agent), end);
        }
        assert.deepEqual(ran, ["pick_file", "pick_file", "locate", "pick_file"]);
        // Each request brings the tools.
        const guest = copilot.getAgent("guest");
        guest.threadId = randomUUID();
        guest.addMessage(said("locate weigh"));
        await copilot.runAgent({ agent: guest });
        assert.deepEqual(failures, []);
        assert.equal(lastText(guest), "Done: Berlin and 5 kg");
        // A failure waits for the next message of the user.
        copilot.removeTool("pick_file");
        copilot.addTool(fails);
        agent.addMessage(said("pick_file"));
        await copilot.runAgent({ agent });
        assert.match(failures.pop(), /the user said no/);
        agent.addMessage(said("weigh"));
        await copilot.runAgent({ agent });
        assert.deepEqual(failures, []);
        assert.equal(lastText(agent), "Done: 5 kg");
        const reason = agent.messages.findLast((message) => message.role === "tool" && message.toolCallId.startsWith("helper-4"));
        assert.equal(reason.content, "Error: the user said no");
    });
}

await served(async (url) => {
    console.debug = () => {};
    await drive(
        [
            agui_runs_tools,
            agui_runs_tools_next_to_the_servers,
            agui_runs_tools_of_subagents,
            agui_brings_tools,
            agui_reports_failures,
            agui_answers_one_by_one,
            agui_changes_the_state_with_a_result,
            agui_refuses_the_results_of_other_tabs,
            copilotkit_runs_tools,
        ],
        { url },
    );
});
