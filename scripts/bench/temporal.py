"""What `figures` of hier-restate measures, on Temporal: a worker and a client in this process, beside a server at the address given.

Prints milliseconds, one `name=value` a line: the median of several runs.
"""

import asyncio
import statistics
import sys
import time
import uuid
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

WIDTH, LENGTH, ROUNDS, THREADS, SHORT, TIMES = 8, 100, 20, 1000, 5, 5
LIMIT = timedelta(seconds=60)


@activity.defn
async def tick(at: int) -> int:
    return at + 1


@activity.defn
async def work(item: int) -> int:
    return item


@workflow.defn
class Loop:
    """Each step is recorded before the next begins, as a superstep is."""

    @workflow.run
    async def run(self, goal: int) -> int:
        at = 0
        while at < goal:
            at = await workflow.execute_activity(tick, at, start_to_close_timeout=LIMIT)
        return at


@workflow.defn
class LocalLoop:
    """Steps in the worker, recorded together once the task of the workflow ends."""

    @workflow.run
    async def run(self, goal: int) -> int:
        at = 0
        while at < goal:
            at = await workflow.execute_local_activity(tick, at, start_to_close_timeout=LIMIT)
        return at


@workflow.defn
class Wide:
    """A step of one task, one of eight, one of one."""

    @workflow.run
    async def run(self, goal: int) -> int:
        at = 0
        while at < goal:
            await workflow.execute_activity(tick, at, start_to_close_timeout=LIMIT)
            tasks = [workflow.execute_activity(work, item, start_to_close_timeout=LIMIT) for item in range(WIDTH)]
            await asyncio.gather(*tasks)
            at = await workflow.execute_activity(tick, at, start_to_close_timeout=LIMIT)
        return at


async def main() -> None:
    client = await Client.connect(sys.argv[1])

    async def run(flow, goal: int) -> None:
        # The server takes long to accept a thousand at once.
        at = await client.execute_workflow(
            flow.run, goal, id=str(uuid.uuid4()), task_queue="figures", rpc_timeout=timedelta(minutes=5)
        )
        assert at == goal, at

    async def timed(times: int, count: int, work) -> float:
        took = []
        for _ in range(times + 1):
            begun = time.perf_counter()
            await work()
            took.append((time.perf_counter() - begun) * 1000 / count)
        # The first is cold.
        return statistics.median(took[1:])

    async def crowd() -> None:
        await asyncio.gather(*(run(Loop, SHORT) for _ in range(THREADS)))

    worker = Worker(
        client,
        task_queue="figures",
        workflows=[Loop, LocalLoop, Wide],
        activities=[tick, work],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=2000,
        max_concurrent_activities=500,
        max_concurrent_workflow_tasks=500,
        max_concurrent_local_activities=500,
    )
    async with worker:
        print(f"local={await timed(TIMES, LENGTH, lambda: run(LocalLoop, LENGTH)):.2f}")
        print(f"one={await timed(TIMES, LENGTH, lambda: run(Loop, LENGTH)):.2f}")
        print(f"eight={await timed(TIMES, ROUNDS, lambda: run(Wide, ROUNDS)):.2f}")
        print(f"crowd={await timed(2, THREADS * SHORT, crowd):.2f}")


asyncio.run(main())
