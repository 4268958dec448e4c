// Starts the server that the clients drive, and stops it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

import { WebSocket } from "ws";

// Node has a built-in one from version 22 on.
globalThis.WebSocket ??= WebSocket;

/** Serves with the program named first on the command line, while `drive` is given the address. */
export async function served(drive) {
    const [program, ...rest] = process.argv.slice(2);
    const server = spawn(program, ["--addr", "127.0.0.1:0", ...rest], { stdio: ["ignore", "pipe", "inherit"] });
    const ended = once(server, "exit");
// The server does not survive this process, however it ends.
    process.once("exit", () => server.kill("SIGKILL"));
    process.once("SIGTERM", () => process.exit(1));
    try {
        await drive(await address(server));
    } finally {
        server.kill("SIGTERM");
        // One that hangs is not waited for.
        const patience = setTimeout(() => server.kill("SIGKILL"), 90_000);
        await ended;
        clearTimeout(patience);
    }
    // Connections that clients keep open do not delay the end.
    process.exit(0);
}

/** Where it serves: it answers once it has said that. */
function address(server) {
    return new Promise((resolve, reject) => {
        let said = "";
        server.once("error", reject);
        server.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
        server.stdout.on("data", (data) => {
            said += data;
            const found = said.match(/^serving on (\S+)\n/m);
            if (found) resolve(found[1]);
        });
    });
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
