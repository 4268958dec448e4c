// The studio in a real Chromium. scripts/peers.sh studio calls it.

import { assert, join, open, run, scratch, serve, until } from "./driver.mjs";

const [program, cli, only] = process.argv.slice(2);
const DOCUMENTS = ["w2-harbor-light", "1099-int-cobalt", "receipt-hotel-1"];
const lit = (page, node, state) => until(page, `${node} is ${state}`, ([path, state]) => {
  return [...document.querySelectorAll(".graph [data-path]")].some((part) => part.dataset.path === path && part.classList.contains(state));
}, [JSON.stringify([node].flat()), state]);
const status = (page, text) => until(page, `the thread is ${text}`, (text) => document.querySelector(".top .status").textContent === text, text);

async function start(page, graph, fill) {
  await page.keyboard.press("n");
  await page.getByLabel("Graph", { exact: true }).and(page.locator("select")).selectOption(graph);
  await fill();
  await page.getByRole("button", { name: "Run", exact: true }).click();
}

async function desk(page) {
  await start(page, "desk", async () => {
    await page.getByLabel("taxpayer").fill("Ann Aster");
    await page.getByLabel("documents").fill(JSON.stringify(DOCUMENTS));
  });
}

const server = await serve(program, "--addr", "127.0.0.1:0", "--also", "say \"hi\" <b>&'x'</b>");

await run({
  async "a run lights its nodes, asks with a form of its schema, and ends"() {
    // Slow enough to see a running node on any machine.
    const server = await serve(program, "--addr", "127.0.0.1:0", "--slower", "10");
    const page = await open(server.url);
    await page.ready();
    await page.picture("empty");
    await desk(page);
    await lit(page, "read", "running");
    await page.picture("desk-runs");
    await status(page, "interrupted");
    await lit(page, "review", "asking");
    await page.getByRole("button", { name: /open read/ }).click();
    await lit(page, ["read", "extract"], "done");
    assert.match(await page.locator(`.graph [data-path='["read","extract"]'] .tally`).textContent(), /^×3 · /);
    await page.picture("desk-asks");
    const inside = page.getByLabel("Subgraph", { exact: true });
    await inside.selectOption({ index: 1 });
    await until(page, "the state of the graph inside", () => /^step 3/.test(document.querySelector(".state .head").textContent)
      && document.querySelector(".state").classList.contains("inside"));
    await inside.selectOption("");
    await page.getByLabel("file *").selectOption("yes");
    await page.getByLabel("speed *").selectOption("this_week");
    await page.getByLabel("note").fill("checked by hand");
    await page.getByRole("button", { name: "Answer" }).click();
    await status(page, "idle");
    await lit(page, "file", "done");
    await until(page, "the state has the answer", () => document.querySelector(".state .json").textContent.includes("notes"));
    const [thread] = (await server.ask("POST", "/threads/search", { limit: 1, sort_by: "updated_at" }));
    assert.deepEqual(thread.values.notes.slice(-3), ["a person said: file true, ThisWeek", "checked by hand", "filed"]);
    await page.picture("desk-ends");
    await page.done();
    await server.stop();
  },

  async "an agent speaks word by word, its reasoning is folded, its calls have their results"() {
    const server = await serve(program, "--addr", "127.0.0.1:0", "--slower", "5");
    const page = await open(server.url, { colours: "dark" });
    await page.ready();
    await start(page, "support", () => page.getByLabel("Message", { exact: true }).fill("Where is order 1714?"));
    await until(page, "words are streamed", () => /Let me/.test(document.querySelector(".message.open > .text")?.textContent ?? ""));
    await status(page, "idle");
    await until(page, "the answer is there", () => /I looked it up/.test(document.querySelector(".chat .said").textContent));
    assert.equal(await page.locator(".message.open").count(), 0);
    assert.equal(await page.locator(".chat details.reasoning[open]").count(), 0);
    assert.equal(await page.locator(".chat details.reasoning").count(), 2);
    await page.locator(".chat details.call summary").click();
    assert.match(await page.locator(".chat .call .result").textContent(), /120 euros/);
    await page.picture("chat-dark");
    await page.getByLabel("Message", { exact: true }).fill("thanks");
    await page.keyboard.press("Enter");
    await until(page, "a second turn", () => document.querySelectorAll(".message.human").length === 2);
    await status(page, "idle");
    await page.done();
    await server.stop();
  },

  async "history is a tree: replay, edit, fork, compare"() {
    const thread = await server.thread("counter", { until: 4, rows: 2 });
    const page = await open(`${server.url}#/threads/${thread}`);
    await page.ready();
    await page.keyboard.press("s");
    const rows = page.locator(".checkpoint");
    const before = await rows.count();
    await rows.nth(3).click();
    await until(page, "the older one is shown", () => document.querySelector(".checkpoint[aria-selected=true]")?.dataset.index === "3");
    await page.getByRole("button", { name: "Replay" }).click();
    await until(page, "a branch", (before) => document.querySelectorAll(".checkpoint").length > before, before);
    await status(page, "idle");
    await until(page, "two lanes", () => document.querySelector(".tree .lane1"));
    // Edit the newest.
    await page.locator(".checkpoint").first().click();
    await page.getByRole("button", { name: "Edit", exact: true }).click();
    await page.locator("dialog").getByLabel("Channel").selectOption("count");
    await page.getByLabel("Value as JSON").fill("40");
    await page.getByRole("button", { name: "Write" }).click();
    await until(page, "the edit", () => document.querySelector(".checkpoint .source").textContent === "update");
    await until(page, "its change", () => /1 change$/.test(document.querySelector(".changes").textContent));
    await page.getByLabel("only changes").check();
    assert.match(await page.locator(".leaf.changed").first().textContent(), /count:40was 4/);
    await page.picture("history");
    // Since any other one.
    await page.locator(".checkpoint").last().click();
    await page.getByRole("button", { name: "Compare" }).click();
    await page.locator(".checkpoint").first().click();
    await until(page, "more changes", () => Number.parseInt(document.querySelector(".changes").textContent, 10) > 1);
    // A copy continues from an older one.
    await page.locator(".checkpoint").nth(4).click();
    const old = page.url();
    await page.getByRole("button", { name: "Fork" }).click();
    await page.waitForURL((url) => url.href !== old && !url.href.includes(thread));
    await status(page, "interrupted");
    await page.getByRole("button", { name: "Resume" }).click();
    await status(page, "idle");
    await page.done();
  },

  async "what runs is cancelled"() {
    const page = await open(server.url);
    await page.ready();
    await start(page, "counter", () => page.getByLabel("until").fill("100000"));
    await status(page, "busy");
    await page.getByRole("button", { name: "Cancel" }).click();
    await until(page, "it stopped", () => document.querySelector(".top .status").textContent !== "busy");
    const [found] = await server.ask("POST", "/threads/search", { limit: 1, sort_by: "updated_at" });
    const runs = await server.ask("GET", `/threads/${found.thread_id}/runs`);
    assert.ok(["interrupted", "error"].includes(runs[0].status), runs[0].status);
    await page.done();
  },

  async "nothing that a program stored is markup"() {
    const evil = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>\"'><svg onload=window.pwned=3>";
    const name = "say \"hi\" <b>&'x'</b>";
    const thread = await server.thread(name, { until: 1, table: [{ id: 1, name: evil, tags: [evil] }] }, { metadata: { title: evil } });
    const chat = await server.thread("support", { messages: [{ role: "user", content: evil }] });
    const page = await open(`${server.url}#/threads/${thread}`);
    await page.ready();
    await page.waitForSelector(".graph svg .node");
    await page.keyboard.press("s");
    await page.locator(".leaf", { hasText: "table" }).click();
    await page.locator(".leaf", { hasText: "[" }).last().click();
    await page.locator(".leaf", { hasText: "{3}" }).last().click().catch(() => {});
    await page.keyboard.press("e");
    await page.goto(`${server.url}#/threads/${chat}`);
    await until(page, "the text as text", (evil) => document.querySelector(".message.human .text")?.textContent === evil, evil);
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.deepEqual(await page.evaluate(() => [...document.scripts].map((script) => script.getAttribute("src"))), ["main.js"]);
    assert.equal(await page.locator("img:not([src='icon.svg'])").count(), 0);
    assert.equal(await page.locator("h1 b, .graph b").count(), 0);
    await page.done();
  },

  async "a token is asked for, and kept in the tab only"() {
    const guarded = await serve(program, "--addr", "127.0.0.1:0", "--token", "open-sesame");
    guarded.token = "open-sesame";
    const thread = await guarded.thread("counter", { until: 1 });
    const page = await open(`${guarded.url}#/threads/${thread}`, { expected: ["401"] });
    await page.getByLabel("Token").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("does not know this token").waitFor();
    await page.picture("token");
    await page.getByLabel("Token").fill("open-sesame");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForSelector(".checkpoint");
    await page.reload();
    await page.waitForSelector(".graph svg .node");
    assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes("open-sesame")), false);
    assert.equal(page.url().includes("open-sesame"), false);
    await page.done();
    await guarded.stop();
  },

  async "ten thousand checkpoints and five megabytes do not freeze it"() {
    const large = await server.thread("counter", { until: 10000 }, { run: { config: { recursion_limit: 20000 }, stream_mode: "tasks" } });
    await server.ask("POST", `/threads/${large}/runs/wait`, { assistant_id: "counter", input: { rows: 65000 }, stream_mode: "custom" });
    let count = 0;
    for (let before = ""; before !== null;) {
      const page = await server.ask("GET", `/studio/api/threads/${large}/checkpoints?limit=1000${before && `&before=${before}`}`);
      count += page.checkpoints.length;
      before = page.more ? page.checkpoints.at(-1).id : null;
    }
    assert.ok(count > 10000, `${count} checkpoints`);
    const page = await open(`${server.url}#/threads/${large}`);
    await page.evaluate(() => {
      window.slowest = 0;
      let last = performance.now();
      const frame = (at) => {
        window.slowest = Math.max(window.slowest, at - last);
        last = at;
        requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    });
    await page.ready();
    await until(page, "the count", () => /count:1000[1-9]/.test(document.querySelector(".state .json").textContent));
    const size = await page.evaluate(async (thread) => (await (await fetch(`api/threads/${thread}/checkpoints/latest`)).text()).length, large);
    assert.ok(size > 5e6, `${size} bytes`);
    const shown = () => page.evaluate(() => document.querySelectorAll(".row").length);
    await page.keyboard.press("s");
    await page.locator(".leaf", { hasText: "table" }).click();
    assert.ok(await shown() < 250, `${await shown()} rows are elements`);
    await page.picture("large");
    await page.keyboard.press("s");
    await page.keyboard.press("End");
    await until(page, "the last row", () => document.querySelector(".json").textContent.includes("64999"));
    // To the first checkpoint, page by page.
    await page.keyboard.press("h");
    const foot = `${count} checkpoints`;
    for (const end = Date.now() + 300000; Date.now() < end && await page.locator(".history .foot").textContent() !== foot;) {
      await page.keyboard.press("End");
      await page.waitForTimeout(60);
    }
    assert.equal(await page.locator(".history .foot").textContent(), foot);
    await page.keyboard.press("End");
    await until(page, "the input", () => document.querySelector(".checkpoint[aria-selected=true] .source")?.textContent === "input");
    assert.ok(await shown() < 250, `${await shown()} rows are elements`);
    const slowest = await page.evaluate(() => window.slowest);
    console.log(`      the longest frame took ${Math.round(slowest)} ms`);
    assert.ok(slowest < 2500, `a frame took ${slowest} ms`);
    await page.done();
  },

  async "a lost connection goes on where it was"() {
    const db = `sqlite:${join(scratch, "lost.db")}`;
    let lost = await serve(program, "--addr", "127.0.0.1:0", "--db", db);
    const thread = await lost.thread("counter", { until: 3 }, { run: { stream_mode: ["tasks"] } });
    const page = await open(`${lost.url}#/threads/${thread}`, { expected: ["ERR_"] });
    await page.ready();
    await page.keyboard.press("e");
    await page.waitForSelector(".event");
    await lost.stop("SIGKILL");
    await page.getByText("connection lost").waitFor();
    lost = await serve(program, "--addr", `127.0.0.1:${lost.port}`, "--db", db);
    await lost.ask("POST", `/threads/${thread}/runs/wait`, { assistant_id: "counter", input: { count: 0, until: 5 }, stream_mode: ["tasks"] });
    await until(page, "it is live again", () => document.querySelector(".link").textContent === "");
    const { last_event: last } = await lost.ask("GET", `/studio/api/threads/${thread}`);
    await until(page, "every event once", (last) => {
      const list = document.querySelector(".events .list");
      list.scrollTop = list.scrollHeight;
      return document.querySelector(".events").textContent.includes(String(last)) && document.querySelectorAll(".event").length > 0;
    }, last);
    const numbers = await page.evaluate(async () => {
      const list = document.querySelector(".events .list");
      const seen = new Set();
      for (let top = 0; top <= list.scrollHeight; top += 200) {
        list.scrollTop = top;
        await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        for (const row of document.querySelectorAll(".event .n")) seen.add(Number(row.textContent));
      }
      return [...seen].sort((a, b) => a - b);
    });
    assert.deepEqual(numbers, Array.from({ length: last }, (_, index) => index + 1));
    await page.done();
    await lost.stop();
  },

  async "a database alone: read, forked, pruned, and nothing runs"() {
    const file = join(scratch, "alone.db");
    const first = await serve(program, "--addr", "127.0.0.1:0", "--db", `sqlite:${file}`);
    const thread = await first.thread("desk", { taxpayer: "Ann", documents: DOCUMENTS });
    await first.stop();
    const alone = await serve(cli, "studio", "--db", file, "--addr", "127.0.0.1:0");
    const page = await open(alone.url);
    await page.ready();
    await page.locator(".thread").first().click();
    await page.waitForSelector(".checkpoint");
    await page.keyboard.press("s");
    await until(page, "the state", () => document.querySelector(".state .json").textContent.includes("taxpayer"));
    assert.equal(await page.getByRole("button", { name: "Replay" }).isDisabled(), true);
    await page.getByText("Only the database is open here").waitFor();
    await page.picture("database-alone");
    await page.locator(".checkpoint").nth(2).click();
    await page.getByRole("button", { name: "Fork" }).click();
    await until(page, "two threads", () => document.querySelectorAll(".thread").length === 2);
    await page.goto(`${alone.url}#/threads/${thread}`);
    await until(page, "the original", () => document.querySelectorAll(".checkpoint").length > 4);
    await page.getByLabel("More").click();
    await page.getByLabel("Keep the last").check();
    await page.getByLabel("Checkpoints to keep").fill("2");
    await page.getByRole("button", { name: "Apply" }).click();
    await until(page, "two are left", () => document.querySelectorAll(".checkpoint").length === 2);
    await page.done();
    await alone.stop();
  },

  async "keys do what buttons do"() {
    await server.thread("support", { messages: [{ role: "user", content: "hello" }] });
    await server.thread("counter", { until: 1 });
    const page = await open(server.url);
    await page.ready();
    await page.keyboard.press("?");
    await page.picture("keys");
    await page.keyboard.press("Escape");
    await until(page, "the list of keys is closed", () => !document.querySelector("dialog[open]"));
    await page.keyboard.press("/");
    await until(page, "the search has the focus", () => document.activeElement?.matches("input[type=search]"));
    await page.keyboard.type("support");
    await until(page, "only those of the agent", () => {
      const about = [...document.querySelectorAll(".thread .about")];
      return about.length > 0 && about.every((one) => one.textContent.startsWith("support"));
    });
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".message.human");
    await page.keyboard.press("h");
    await page.keyboard.press("ArrowDown");
    await until(page, "the checkpoint below", () => document.querySelector(".checkpoint[aria-selected=true]")?.dataset.index === "1");
    await page.keyboard.press("t");
    assert.equal(await page.evaluate(() => document.documentElement.dataset.look), "light");
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("?");
    const searched = await page.evaluate(() => {
      // A key that comes before the next frame, while the focus is still in the closed dialog.
      document.querySelector("dialog").close();
      const event = new KeyboardEvent("keydown", { key: "/", bubbles: true, cancelable: true });
      document.activeElement.dispatchEvent(event);
      return document.activeElement.matches("input[type=search]");
    });
    assert.ok(searched, "a key right behind a closed dialog is not lost");
    await page.done();
  },

  async "assistants, crons and the store have pages: they are found, changed and deleted"() {
    const server = await serve(program, "--addr", "127.0.0.1:0");
    const view = (page, name) => page.getByRole("button", { name, exact: true }).click();
    const first = (page, text) => until(page, `the first row is ${text}`, (text) => document.querySelector(".records .thread")?.textContent.includes(text), text);
    const { assistant_id: id } = await server.ask("POST", "/assistants", { graph_id: "counter", name: "Weekly count", config: { configurable: { until: 3 } } });
    await server.ask("PATCH", `/assistants/${id}`, { config: { configurable: { until: 4 } } });
    const cron = await server.ask("POST", "/runs/crons", { assistant_id: "counter", schedule: "0 9 * * 1", timezone: "Europe/Berlin", input: { until: 2 } });
    await server.ask("PUT", "/store/items", { namespace: ["users", "ann"], key: "likes", value: { tea: "green" } });
    await server.ask("PUT", "/store/items", { namespace: ["desks"], key: "main", value: { open: true } });
    const page = await open(server.url);
    await page.ready();

    await view(page, "Assistants");
    await page.getByLabel("Name contains").fill("weekly");
    await first(page, "Weekly count");
    await page.locator(".records .thread").first().click();
    await page.getByLabel("Version").selectOption("1");
    await first(page, "version 1");
    assert.deepEqual((await server.ask("GET", `/assistants/${id}`)).config.configurable.until, 3);
    await page.picture("assistants");
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Value as JSON").fill('{"config": {}, "context": {"until": 7}}');
    await page.getByRole("button", { name: "Write" }).click();
    await first(page, "version 3");
    const changed = await server.ask("GET", `/assistants/${id}`);
    assert.deepEqual([changed.context, changed.config.configurable], [{ until: 7 }, { until: 7 }]);
    await page.getByRole("button", { name: "Edit" }).click();
    assert.deepEqual(JSON.parse(await page.getByLabel("Value as JSON").inputValue()), { config: {}, context: { until: 7 } });
    await page.keyboard.press("Escape");

    await view(page, "Crons");
    await first(page, "0 9 * * 1 Europe/Berlin");
    await page.locator(".records .thread").first().click();
    await page.getByRole("button", { name: "Pause" }).click();
    await first(page, "paused");
    assert.equal((await server.ask("GET", `/runs/crons/${cron.cron_id}`)).enabled, false);
    await page.picture("crons");
    await page.getByRole("button", { name: "Delete" }).click();
    await page.locator("dialog").getByRole("button", { name: "Delete" }).click();
    await until(page, "no cron is left", () => document.querySelector(".records .foot").textContent === "No cron here.");

    // The address of a page opens it, and a search finds by the namespace.
    await page.goto(`${server.url}#/store`);
    await page.reload();
    await page.ready();
    await page.keyboard.press("/");
    await page.keyboard.type("users.ann");
    assert.equal(await page.locator(".toast.bad").count(), 0);
    await until(page, "one item is found", () => document.querySelector(".records .foot").textContent === "1 item");
    await page.locator(".records .thread").first().click();
    await until(page, "its value", () => document.querySelector(".records .json").textContent.includes('tea:"green"'));
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Value as JSON").fill('{"tea": "black", "<b>": "</textarea>"}');
    await page.getByRole("button", { name: "Write" }).click();
    await until(page, "the new value", () => document.querySelector(".records .json").textContent.includes('tea:"black"'));
    await page.picture("store");
    await page.getByRole("button", { name: "New" }).click();
    await page.getByLabel("Namespace", { exact: true }).fill("users.ann");
    await page.getByLabel("Key", { exact: true }).fill("size");
    await page.getByLabel("Value as JSON").fill("{not json");
    await page.getByRole("button", { name: "Write" }).click();
    await until(page, "what is wrong with it", () => document.querySelector("dialog .wrong").textContent !== "");
    await page.getByLabel("Value as JSON").fill('{"shoe": 41}');
    await page.getByRole("button", { name: "Write" }).click();
    await until(page, "both items", () => document.querySelector(".records .foot").textContent === "2 items");
    assert.deepEqual((await server.ask("GET", "/store/items?namespace=users.ann&key=size")).value, { shoe: 41 });
    await page.setViewportSize({ width: 390, height: 844 });
    await page.picture("phone-store");
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);

    // Back to the threads by the browser's own button.
    await page.setViewportSize({ width: 1360, height: 860 });
    await view(page, "Threads");
    await until(page, "the threads are shown", () => document.body.dataset.view === "threads");
    await page.goBack();
    await until(page, "the store is shown again", () => document.body.dataset.view === "store");
    assert.equal(await page.locator(".toast.bad").count(), 0);
    await page.done();
    await server.stop();
  },

  async "a phone's width"() {
    const thread = await server.thread("desk", { taxpayer: "Ann Aster", documents: DOCUMENTS });
    const answer = { file: true, speed: "this_week", note: "checked by hand" };
    await server.ask("POST", `/threads/${thread}/runs/wait`, { assistant_id: "desk", command: { resume: answer } });
    const page = await open(server.url, { width: 390, height: 844 });
    await page.ready();
    await page.picture("phone-threads");
    await page.goto(`${server.url}#/threads/${thread}`);
    await status(page, "idle");
    await page.picture("phone-thread");
    for (const name of ["Graph", "History"]) {
      await page.getByRole("button", { name, exact: true }).click();
      await page.waitForTimeout(200);
      await page.picture(`phone-${name.toLowerCase()}`);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.equal(wide, 390);
    await page.done();
  },
}, only);
