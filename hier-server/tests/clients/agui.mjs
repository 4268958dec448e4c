// Runs agents of AG-UI, alone and behind the runtime of CopilotKit.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { Readable } from "node:stream";

import { CopilotRuntime, createCopilotRuntimeHandler } from "@copilotkit/runtime/v2";

process.env.COPILOTKIT_TELEMETRY_DISABLED = "true";

/** A message of the user. */
export const said = (content) => ({ id: randomUUID(), role: "user", content });

/** Runs an agent once, and returns its events. */
export async function run(agent, given = {}) {
    const events = [];
    await agent.runAgent({ runId: randomUUID(), ...given }, { onEvent: ({ event }) => void events.push(event) });
    const failed = events.find((event) => event.type === "RUN_ERROR");
    assert.ok(!failed, JSON.stringify(failed));
    return events;
}

/** Serves agents with CopilotKit's runtime, while `use` is given its address. */
export async function withCopilotKit(agents, use) {
    const handler = createCopilotRuntimeHandler({ runtime: new CopilotRuntime({ agents }), basePath: "/copilotkit" });
    const host = createServer(async (request, response) => {
        const init = { method: request.method, headers: request.headers };
        if (request.method !== "GET") Object.assign(init, { body: Readable.toWeb(request), duplex: "half" });
        const answer = await handler(new Request(new URL(request.url, "http://localhost"), init));
        response.writeHead(answer.status, Object.fromEntries(answer.headers));
        if (answer.body) Readable.fromWeb(answer.body).pipe(response);
        else response.end();
    });
    await new Promise((resolve) => host.listen(0, "127.0.0.1", resolve));
    try {
        await use(`http://127.0.0.1:${host.address().port}/copilotkit`);
    } finally {
        host.closeAllConnections();
        host.close();
    }
}
