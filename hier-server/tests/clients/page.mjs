// A page that uses useStream, for browser.mjs: the stream is `page.stream`, what the hooks return is `page.forks`, and `page.ran` are the
// tools that it has run. The transport `runs` selects the hook of @langchain/langgraph-sdk, and the others that of @langchain/react.

import { createElement, useEffect } from "react";
import { createRoot } from "react-dom/client";
import { useExtension, useMessageMetadata, useStream } from "@langchain/react";
import { useStream as useRunStream } from "@langchain/langgraph-sdk/react";
import { tool } from "langchain";
import { z } from "zod";

const asked = new URLSearchParams(location.search);
const page = (globalThis.page = { forks: {}, ran: [], isShown: false });

/** The text of a message, which may consist of blocks. */
page.text = ({ content }) => typeof content === "string" ? content : content.map((block) => block.text ?? "").join("");

const declared = (name, schema, run) =>
    tool({ name, description: `The tool ${name}.`, schema }).implement(async (args) => {
        page.ran.push(name);
        return run(args);
    });

const tools = [
    declared("pick_file", z.object({ kind: z.string() }), ({ kind }) => ({ name: `notes.${kind}` })),
    declared("locate", z.object({}), () => {
        if (page.fails) throw new Error("the user said no");
        return page.place ?? "Berlin";
    }),
];

function Fork({ stream, id }) {
    page.forks[id] = useMessageMetadata(stream, id)?.parentCheckpointId;
    return null;
}

const options = {
    apiUrl: asked.get("server"),
    assistantId: asked.get("assistant"),
    threadId: asked.get("thread") ?? undefined,
    onThreadId: (id) => (page.thread = id),
    tools: asked.has("tools") ? tools : undefined,
};

function Runs() {
    const stream = useRunStream(options);
    page.stream = { ...stream, messages: stream.messages, values: stream.values, error: stream.error };
    useEffect(() => void (page.isShown = true), []);
    return createElement("pre", null, JSON.stringify(stream.values));
}

function Page() {
    const stream = useStream({ ...options, transport: asked.get("transport") });
    // Hooks that subscribe on their own.
    useExtension(stream, "tick");
    useExtension(stream, "progress");
    page.stream = stream;
    useEffect(() => void (page.isShown = true), []);
    const forks = stream.messages.map((message) => createElement(Fork, { key: message.id, stream, id: message.id }));
    return createElement("pre", null, JSON.stringify(stream.values), forks);
}

createRoot(document.getElementById("root")).render(createElement(asked.get("transport") === "runs" ? Runs : Page));
