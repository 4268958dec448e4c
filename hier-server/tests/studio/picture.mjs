// The picture of the studio in the documentation: `scripts/peers.sh studio --picture`.

import { open, run, serve, until } from "./driver.mjs";

const [program, file] = process.argv.slice(2);

await run({
  async "the picture"() {
    const server = await serve(program, "--addr", "127.0.0.1:0");
    await server.thread("support", { messages: [{ role: "user", content: "Where is order 1714?" }] }, { metadata: { title: "Order 1714" } });
    for (const name of ["Cobalt Ltd", "Harbor Light"]) {
      const documents = ["w2-harbor-light", "receipt-hotel-2"];
      await server.thread("desk", { taxpayer: name, documents }, { metadata: { title: name } });
    }
    const documents = ["w2-harbor-light", "1099-int-cobalt", "receipt-hotel-1", "receipt-course-2"];
    const run = { stream_mode: ["tasks", "updates"], stream_subgraphs: true };
    const thread = await server.thread("desk", { taxpayer: "Ann Aster", documents }, { metadata: { title: "Ann Aster, 2025" }, run });
    const page = await open(`${server.url}#/threads/${thread}`, { width: 1280, height: 780 });
    await page.ready();
    await page.getByRole("button", { name: /open read/ }).click();
    await until(page, "the graph inside", () => document.querySelectorAll(".graph .tally").length > 5);
    await page.mouse.move(0, 0);
    await page.screenshot({ path: file });
    await page.done();
  },
});
