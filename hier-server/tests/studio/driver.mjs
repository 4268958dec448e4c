// Shared by the tests of the studio: servers, a real Chromium, pictures.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const tools = createRequire(join(process.env.STUDIO_TOOLS, "package.json"));
const { chromium } = tools("playwright-core");

export const scratch = mkdtempSync(join(tmpdir(), "studio-"));
const pictures = process.env.STUDIO_PICTURES;
mkdirSync(pictures, { recursive: true });

const processes = new Set();

// Starts a program that says where its studio is, and returns how it is asked.
export async function serve(program, ...given) {
  const child = spawn(program, given, { stdio: ["ignore", "pipe", "inherit"] });
  processes.add(child);
  const url = await new Promise((resolve, reject) => {
    let text = "";
    child.on("exit", (code) => reject(new Error(`${program} ended with ${code}: ${text}`)));
    child.stdout.on("data", (data) => {
      text += data;
      const found = text.match(/http:\/\/\S+\/studio\//);
      if (found) resolve(found[0]);
    });
  });
  const base = new URL("..", url);
  return {
    url,
    port: base.port,
    token: null,
    async ask(method, path, body) {
      const headers = { "content-type": "application/json", ...(this.token && { authorization: `Bearer ${this.token}` }) };
      const response = await fetch(new URL(path, base), { method, headers, body: body && JSON.stringify(body) });
      const text = await response.text();
      assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
      return text.trim() ? JSON.parse(text) : null;
    },
    async thread(graph, input, more = {}) {
      const { thread_id: thread } = await this.ask("POST", "/threads", { metadata: { graph_id: graph, ...more.metadata } });
      await this.ask("POST", `/threads/${thread}/runs/wait`, { assistant_id: graph, input, ...more.run });
      return thread;
    },
    async stop(signal = "SIGTERM") {
      processes.delete(child);
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill(signal);
      await ended;
    },
  };
}

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
  "--disable-sync", "--disable-dev-shm-usage",
];
let browser;

// A separate page. It may only request its own server and must not log to the console: either ends the test.
export async function open(url, { width = 1360, height = 860, colours = "light", expected = [] } = {}) {
  browser ??= await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS, headless: true, timeout: 180000 });
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: colours, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.wrong = [];
  page.setDefaultTimeout(90000);
  page.on("request", (request) => {
    const asked = new URL(request.url());
    if (asked.host !== new URL(url).host && asked.protocol !== "data:") page.wrong.push(`asked ${request.url()}`);
  });
  page.on("pageerror", (error) => page.wrong.push(`threw ${error.stack}`));
  page.on("console", (message) => {
    const isExpected = expected.some((text) => message.text().includes(text));
    if (message.type() === "error" && !isExpected) page.wrong.push(`said ${message.text()} (${message.location().url})`);
  });
  await page.goto(url);
  page.ready = () => page.waitForSelector("html[data-ready]");
  page.picture = (name) => page.screenshot({ path: join(pictures, `${name}.png`) });
  page.done = async () => {
    assert.deepEqual(page.wrong, []);
    await context.close();
  };
  return page;
}

// Waits until a check of the page holds.
export async function until(page, what, check, given) {
  try {
    await page.waitForFunction(check, given, { polling: 50 });
  } catch (error) {
    await page.picture("failed");
    throw new Error(`never: ${what} (${error.message.split("\n")[0]}; ${page.wrong.join("; ")})`);
  }
}

export async function run(tests, only) {
  let failed = 0;
  for (const [name, test] of Object.entries(tests)) {
    if (only && !name.includes(only)) continue;
    const begun = Date.now();
    try {
      await test();
      console.log(`ok    ${name} (${Date.now() - begun} ms)`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${name}: ${error.stack}`);
    }
  }
  await browser?.close();
  for (const child of processes) child.kill("SIGKILL");
  rmSync(scratch, { recursive: true, force: true });
  process.exit(failed ? 1 : 0);
}

export { assert, join };
