// Drives a server with AG-UI's connector to LangGraph (@ag-ui/langgraph), alone and behind the runtime of CopilotKit.
//
//     node .tools/clients/connectors.mjs target/debug/examples/compat_server [--db URL]

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { HttpAgent } from "@ag-ui/client";
import { LangGraphAgent } from "@ag-ui/langgraph";
import { LangGraphAgent as CopilotKitAgent } from "@copilotkit/runtime/langgraph";

import { run, said, withCopilotKit } from "./agui.mjs";
import { drive, served } from "./serve.mjs";

/** The text of each message that was streamed. */
function spoken(events) {
    const texts = new Map();
    for (const event of events.filter((event) => event.type === "TEXT_MESSAGE_CONTENT")) {
        texts.set(event.messageId, (texts.get(event.messageId) ?? "") + event.delta);
    }
    return [...texts.values()];
}

async function talks(agent) {
    agent.addMessage(said("hi"));
    const first = await run(agent);
    // Each piece once.
    assert.deepEqual(spoken(first), ["Hello there friend"]);
    agent.addMessage(said("again"));
    const second = await run(agent);
    assert.deepEqual(spoken(second), ["Hello there friend"]);
    assert.deepEqual(own(agent), ["hi", "again"]);
}

/** What the person said, without what the graph asks its model as the user. */
function own(agent) {
    const people = agent.messages.filter((message) => message.role === "user").map((message) => message.content);
    return people.filter((content) => !String(content).startsWith("What should we do now?"));
}

const tools = [{ name: "look", description: "Looks.", parameters: { type: "object", properties: {} } }];

async function connector_chats({ url }) {
    await talks(new LangGraphAgent({ deploymentUrl: url, graphId: "chat" }));
}

async function connector_sends_tools({ url }) {
    const agent = new LangGraphAgent({ deploymentUrl: url, graphId: "chat" });
    agent.addMessage(said("hi"));
    assert.deepEqual(spoken(await run(agent, { tools })), ["Hello there friend"]);
}

/** A person sends another text in place of the last: the connector changes the state, and runs from there. */
async function connector_regenerates({ url }) {
    const agent = new LangGraphAgent({ deploymentUrl: url, graphId: "chat", threadId: randomUUID() });
    const first = said("hi");
    agent.addMessage(first);
    await run(agent);
    agent.setMessages([first]);
    const again = await run(agent);
    assert.deepEqual(spoken(again), ["Hello there friend"]);
    assert.deepEqual(own(agent), ["hi"]);
}

async function connector_sends_images({ url }) {
    const agent = new LangGraphAgent({ deploymentUrl: url, graphId: "chat" });
    agent.addMessage(said([
        { type: "text", text: "see" },
        { type: "image", source: { type: "data", value: "iVBORw0KGgo=", mimeType: "image/png" } },
    ]));
    assert.deepEqual(spoken(await run(agent)), ["Hello there friend"]);
    const image = agent.messages.find((message) => message.role === "user").content[1];
    assert.equal(image.source.value, "iVBORw0KGgo=");
}

async function connector_asks({ url }) {
    const agent = new LangGraphAgent({ deploymentUrl: url, graphId: "agent", emitInterruptOutcome: true });
    agent.addMessage(said("hi"));
    const events = await run(agent);
    const { outcome } = events.find((event) => event.type === "RUN_FINISHED");
    assert.equal(outcome.type, "interrupt", JSON.stringify(events.at(-1)));
    const [asked] = outcome.interrupts;
    const answered = await run(agent, { resume: [{ interruptId: asked.id, status: "resolved", payload: "yes" }] });
    const end = answered.find((event) => event.type === "RUN_FINISHED");
    assert.notEqual(end.outcome?.type, "interrupt", JSON.stringify(end));
}

/** The connector runs no tools. It shows their calls as interrupts, and answers one or several at once. */
async function connector_answers_calls({ url }) {
    const results = { pick_file: { name: "a.md" }, locate: "Berlin" };
    for (const [order, answer] of [["locate", "Berlin"], ["locate pick_file", 'Berlin and {"name":"a.md"}']]) {
        const agent = new LangGraphAgent({ deploymentUrl: url, graphId: "helper", emitInterruptOutcome: true });
        agent.addMessage(said(order));
        const { outcome } = (await run(agent)).find((event) => event.type === "RUN_FINISHED");
        const resume = outcome.interrupts.map(({ id, metadata }) => {
            const { name } = metadata.langgraph.raw.toolCall;
            return { interruptId: id, status: "resolved", payload: results[name] };
        });
        assert.deepEqual(spoken(await run(agent, { resume })).at(-1), `Done: ${answer}`);
    }
}

/** CopilotKit's runtime in between, asked by a client of AG-UI. */
async function copilotkit_chats({ url }) {
    const agents = { default: new CopilotKitAgent({ deploymentUrl: url, graphId: "chat" }) };
    await withCopilotKit(agents, async (runtimeUrl) => {
        await talks(new HttpAgent({ url: `${runtimeUrl}/agent/default/run`, threadId: randomUUID() }));
    });
}

await served(async (url) => {
    console.debug = () => {};
    await drive(
        [
            connector_chats,
            connector_sends_tools,
            connector_regenerates,
            connector_sends_images,
            connector_asks,
            connector_answers_calls,
            copilotkit_chats,
        ],
        { url },
    );
});
