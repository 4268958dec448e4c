// Starts the server that the clients drive, and stops it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { WebSocket } from "ws";

// Node has one of its own from version 22 on.
globalThis.WebSocket ??= WebSocket;

async function freePort() {
    const listener = createServer().listen(0, "127.0.0.1");
    await once(listener, "listening");
    const { port } = listener.address();
    listener.close();
    await once(listener, "close");
    return port;
}

/** Serves with the program named first on the command line, while `drive` is given the address. */
export async function served(drive) {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const [program, ...rest] = process.argv.slice(2);
    const server = spawn(program, ["--addr", `127.0.0.1:${port}`, ...rest], { stdio: "inherit" });
    const ended = once(server, "exit");
    // Whatever happens to this process, the server is not left behind.
    process.once("exit", () => server.kill("SIGKILL"));
    process.once("SIGTERM", () => process.exit(1));
    try {
        await answers(url);
        await drive(url);
    } finally {
        server.kill("SIGTERM");
        await ended;
    }
    // What clients keep open holds nobody up.
    process.exit(0);
}

async function answers(url) {
    for (let tries = 0; tries < 900; tries++) {
        const answer = await fetch(`${url}/ok`).catch(() => undefined);
        if (answer?.ok) return;
        await sleep(100);
    }
    throw new Error(`no server answers at ${url}`);
}

/** Runs the parts one after the other, each with a bound on its time, and says how long each took. */
export async function drive(parts, ...args) {
    for (const part of parts) {
        const began = performance.now();
        let timer;
        const late = new Promise((_, reject) => {
            timer = setTimeout(() => reject(new Error(`${part.name} takes longer than five minutes`)), 300_000);
        });
        await Promise.race([part(...args), late]);
        clearTimeout(timer);
        console.log(`${part.name}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
    }
}

/** Waits until a condition holds. */
export async function until(what, holds, seconds = 90) {
    const end = performance.now() + seconds * 1000;
    for (;;) {
        const found = await holds();
        if (found) return found;
        if (performance.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
        await sleep(10);
    }
}

export async function gathered(stream) {
    const all = [];
    for await (const part of stream) all.push(part);
    return all;
}
