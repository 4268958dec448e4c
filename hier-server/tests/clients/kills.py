"""Kills a server, and workers on the same database, again and again while they work, and looks at what became of the runs that were
accepted: each has ended, none was done twice, no thread stays busy.

    python hier-server/tests/clients/kills.py target/debug/examples/compat_server [--kills 30] [--workers 1] [--db sqlite:FILE]
"""

import argparse
import asyncio
import collections
import random
import subprocess
import tempfile
import time
from pathlib import Path

import httpx

from serve import start

# The number of concurrent clients, and of runs that each requests on a thread.
ASKING, RUNS = 8, 4


class Server:
    """The server's process, which is killed and started anew at the same address."""

    def __init__(self, program: str, db: str) -> None:
        self.command = [program, "--db", db]
        self.process, self.url = self.anywhere()

    def anywhere(self) -> tuple:
        """Starts it at a port below those that the system gives to connections: none takes it while the server is down."""
        for _ in range(20):
            try:
                return start(*self.command, address=f"127.0.0.1:{random.randint(20000, 32000)}")
            except RuntimeError as error:
                reason = error
        raise reason

    async def start(self) -> None:
        address = self.url.removeprefix("http://")
        self.process, _ = await asyncio.to_thread(lambda: start(*self.command, address=address))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Worker:
    """A process that does runs and serves nobody."""

    def __init__(self, program: str, db: str) -> None:
        self.command = [program, "--worker", "--db", db]
        self.begin()

    def begin(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        said = self.process.stdout.readline()
        assert said == "working\n", f"{self.command} ended with {self.process.wait()}: {said}"

    async def start(self) -> None:
        await asyncio.to_thread(self.begin)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


async def ask(client: httpx.AsyncClient, accepted: dict, stop: asyncio.Event) -> None:
    """Starts runs on threads of its own. One whose answer was lost may be there or not."""
    while not stop.is_set():
        try:
            made = await client.post("/threads", json={})
            made.raise_for_status()
            thread = made.json()["thread_id"]
            for _ in range(RUNS):
                body = {"assistant_id": "slow", "input": {"n": random.choice([0, 0.02, 0.1])}}
                run = await client.post(f"/threads/{thread}/runs", json=body)
                run.raise_for_status()
                accepted[thread].add(run.json()["run_id"])
            await asyncio.sleep(0.05)
        except httpx.HTTPError:
            await asyncio.sleep(0.05)


async def look(client: httpx.AsyncClient, accepted: dict) -> tuple[int, int]:
    """What became of the runs: how many have ended, and how many of them failed, as each of their workers was killed."""
    ended = given_up = 0
    for thread, mine in accepted.items():
        runs = (await client.get(f"/threads/{thread}/runs", params={"limit": 100})).json()
        statuses = {run["run_id"]: run["status"] for run in runs}
        assert mine <= statuses.keys(), f"thread {thread} has lost runs that it had accepted: {mine - statuses.keys()}"
        assert set(statuses.values()) <= {"success", "error"}, statuses
        failed = [run for run, status in statuses.items() if status == "error"]
        for run in failed:
            why = (await client.get(f"/threads/{thread}/runs/{run}/join")).json()["__error__"]
            assert why["error"] == "AttemptsExceeded", why
        row = (await client.get(f"/threads/{thread}")).json()
        assert row["status"] in ("idle", "error"), row
        log = (await client.get(f"/threads/{thread}/state")).json()["values"].get("log", [])
        done = len(statuses) - len(failed)
        # A failed run may or may not have done its first step. Of its second, the task may be stored and the step not applied: a step that is
        # taken up again stores what its task did first, and its worker may have died in between.
        slept, pre = log.count("slept"), log.count("pre")
        assert done <= slept <= pre <= len(statuses), (statuses, log)
        ended += len(statuses)
        given_up += len(failed)
    return ended, given_up


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--db")
    arguments = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    db = arguments.db or f"sqlite:{Path(folder.name) / 'kills.db'}"
    server = Server(arguments.program, db)
    processes = [server, *(Worker(arguments.program, db) for _ in range(arguments.workers))]
    killed = collections.Counter()
    accepted, stop, began = collections.defaultdict(set), asyncio.Event(), time.monotonic()
    try:
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
            asking = [asyncio.create_task(ask(client, accepted, stop)) for _ in range(ASKING)]
            for _ in range(arguments.kills):
                await asyncio.sleep(random.uniform(0.1, 0.8))
                victim = random.choice(processes)
                killed[type(victim).__name__] += 1
                victim.kill()
                await victim.start()
            stop.set()
            await asyncio.gather(*asking)
            count = sum(len(runs) for runs in accepted.values())
            kills = ", ".join(f"{count} kills of a {name.lower()}" for name, count in killed.items())
            print(f"{kills}: {count} runs accepted on {len(accepted)} threads", flush=True)
            # A run that was being done at the last kill is taken over once its lease has run out: 30 seconds.
            end = time.monotonic() + 300
            while (await client.post("/threads/count", json={"status": "busy"})).json() > 0:
                assert time.monotonic() < end, "threads stay busy"
                await asyncio.sleep(0.5)
            ended, given_up = await look(client, accepted)
            print(
                f"{ended} runs have ended ({given_up} given up after three workers), none was done twice, no thread is busy: "
                f"{time.monotonic() - began:.0f} s",
                flush=True,
            )
    finally:
        for process in processes:
            process.kill()


asyncio.run(main())
