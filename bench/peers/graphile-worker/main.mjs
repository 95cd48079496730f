// The workloads on graphile-worker for Node.js.

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

import { about, main, percentiles, rate, sleep } from "../figures.mjs";

const VERSION = "0.18.0";

// Standard output is for the figures.
const logger = new Logger(() => (level, message) => {
  if (level === "error" || level === "warning") process.stderr.write(`${message}\n`);
});

// Uses the preset of the best figures on the project's performance page.
async function drain(n, url) {
  about(
    "graphile-worker",
    VERSION,
    "concurrentJobs 24, maxPoolSize 25, localQueue size 500, completeJobBatchDelay 0, failJobBatchDelay 0: " +
      "worker.graphile.org/docs/performance",
  );
  await insert(n, url);
  const client = await connect(url);
  let ran = 0;

  const started = performance.now();
  const runner = await run({
    preset: {
      worker: {
        connectionString: url,
        concurrentJobs: 24,
        maxPoolSize: 25,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        logger,
      },
    },
    noHandleSignals: true,
    taskList: { item: () => void (ran += 1) },
  });
  while (ran < n) await sleep(1);
  // A job is done only when its row is deleted.
  while (await jobsLeft(client)) await sleep(1);
  const took = performance.now() - started;

  await runner.stop();
  await client.end();
  if (ran !== n) throw new Error(`ran ${ran} times for ${n} jobs`);
  rate("drain", n, took, "steps/s");
}

// Batches would delay a single job, so there are none here. A notification starts each fetch.
async function latency(n, url) {
  about(
    "graphile-worker",
    VERSION,
    "concurrentJobs 24, maxPoolSize 25, notifications, no batching and no local queue: worker.graphile.org/docs/performance",
  );
  const client = await connect(url);
  let onRan;
  const runner = await run({
    preset: { worker: { connectionString: url, concurrentJobs: 24, maxPoolSize: 25, logger } },
    noHandleSignals: true,
    taskList: { item: () => onRan() },
  });
  // The runner does not report when it begins to listen.
  await sleep(500);

  const samples = [];
  for (let number = 0; number < n; number += 1) {
    const ran = new Promise((resolve) => (onRan = resolve));
    const inserted = performance.now();
    await runner.addJob("item", { number });
    await ran;
    // Nothing reports the commit of the completion, so this polls until the row is deleted.
    while (await jobsLeft(client));
    samples.push(performance.now() - inserted);
  }
  await runner.stop();
  await client.end();
  percentiles("latency", samples);
}

async function insert(n, url) {
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  for (let from = 0; from < n; from += 1_000) {
    const length = Math.min(1_000, n - from);
    await utils.addJobs(
      Array.from({ length }, (_, at) => ({ identifier: "item", payload: { number: from + at } })),
    );
  }
  await utils.release();
}

async function connect(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
}

async function jobsLeft(client) {
  const { rows } = await client.query({
    name: "jobs_left",
    text: "select exists (select from graphile_worker._private_jobs) as left",
  });
  return rows[0].left;
}

await main({ drain, latency }, "graphile-worker is a job queue: one step, no children, no signals");
