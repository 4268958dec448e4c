// A page that uses useStream of @langchain/react, for browser.mjs: the stream is `page.stream`, what the hooks return is `page.forks`.

import { createElement, useEffect } from "react";
import { createRoot } from "react-dom/client";
import { useExtension, useMessageMetadata, useStream } from "@langchain/react";

const asked = new URLSearchParams(location.search);
const page = (globalThis.page = { forks: {}, isShown: false });

function Fork({ stream, id }) {
    page.forks[id] = useMessageMetadata(stream, id)?.parentCheckpointId;
    return null;
}

function Page() {
    const stream = useStream({
        apiUrl: asked.get("server"),
        assistantId: asked.get("assistant"),
        transport: asked.get("transport"),
        threadId: asked.get("thread") ?? undefined,
        onThreadId: (id) => (page.thread = id),
    });
    // Hooks that subscribe on their own.
    useExtension(stream, "tick");
    useExtension(stream, "progress");
    page.stream = stream;
    useEffect(() => void (page.isShown = true), []);
    const forks = stream.messages.map((message) => createElement(Fork, { key: message.id, stream, id: message.id }));
    return createElement("pre", null, JSON.stringify(stream.values), forks);
}

createRoot(document.getElementById("root")).render(createElement(Page));
