// The workloads on Restate, with its TypeScript SDK and its own store.

import { createServer } from "node:http2";

import * as restate from "@restatedev/restate-sdk";

import { about, figure, main, percentiles, rate, sleep, stepTime } from "../figures.mjs";
import { freePort, startServer } from "./server.mjs";

const STEPS = 10;
const WARM_UP = 500;
const INSERTERS = 128;

// The records of the handlers, which run in this process.
const seen = { ran: 0, starts: [], awakeable: undefined };

const peer = restate.service({
  name: "peer",
  handlers: {
    chain: async (ctx, steps) => {
      for (let step = 0; step < steps; step += 1) await ctx.run("one", () => step);
      seen.ran += 1;
      return steps;
    },
    long: async (ctx, steps) => {
      for (let step = 0; step < steps; step += 1) {
        await ctx.run("one", () => void seen.starts.push(performance.now()));
      }
      return steps;
    },
    fanout: async (ctx, n) => {
      const children = Array.from({ length: n }, () => ctx.serviceClient(peer).chain(1));
      return (await restate.RestatePromise.all(children)).length;
    },
    parked: async (ctx) => {
      const { id, promise } = ctx.awakeable();
      seen.awakeable = id;
      return await promise;
    },
  },
});

// Restate cannot hold invocations back, so each is sent with a delay. All delays end at the same
// moment.
const drain = (name, steps) => (n) =>
  withServer(async (server) => {
    const began = performance.now();
    await send(server, WARM_UP, steps, began);
    const msEach = (performance.now() - began) / WARM_UP;
    await allDone(server, WARM_UP);

    const due = performance.now() + 2_000 + 3 * msEach * n;
    await send(server, n, steps, due);
    if (seen.ran > 0) throw new Error("some chains ran before all were sent");
    await sleep(due - performance.now());

    const started = performance.now();
    await allDone(server, n);
    rate(name, n * steps, performance.now() - started, "steps/s");
  });

const fanout = (n) =>
  withServer(async (server) => {
    const started = performance.now();
    const joined = await server.ingress("/peer/fanout", n);
    const took = performance.now() - started;
    if (joined !== n || seen.ran !== n) throw new Error(`joined ${joined}, ran ${seen.ran} of ${n}`);
    figure("fanout", took / 1e3, "s");
  });

const latency = (n) =>
  withServer(async (server) => {
    const samples = [];
    for (let number = 0; number < n; number += 1) {
      const sent = performance.now();
      await server.ingress("/peer/chain", 1);
      samples.push(performance.now() - sent);
    }
    percentiles("latency", samples);
  });

const signal = (n) =>
  withServer(async (server) => {
    const samples = [];
    for (let number = 0; number < n; number += 1) {
      seen.awakeable = undefined;
      const done = server.ingress("/peer/parked", null);
      while (seen.awakeable === undefined) await sleep(1);
      // The handler knows the awakeable a little before the server has it.
      await sleep(50);
      const sent = performance.now();
      await server.ingress(`/restate/awakeables/${seen.awakeable}/resolve`, number);
      const received = await done;
      samples.push(performance.now() - sent);
      if (received !== number) throw new Error(`sent ${number}, received ${received}`);
    }
    percentiles("signal", samples);
  });

const step = (n) =>
  withServer(async (server) => {
    await server.ingress("/peer/long", n);
    if (seen.starts.length !== n) throw new Error(`ran ${seen.starts.length} times for ${n} steps`);
    stepTime(seen.starts);
  });

// Runs `work` on a new server that is warmed up and has the service registered.
async function withServer(work) {
  about(
    "restate",
    "server 1.7.12, TypeScript SDK 1.17.2",
    "its own store on the disk with its default fsync, default-num-partitions 4 for two cores instead of 24, HTTP/2 " +
      "bidirectional streaming to the handlers: docs.restate.dev/references/server-config",
  );
  const server = await startServer({ RESTATE_DEFAULT_NUM_PARTITIONS: "4" });
  try {
    const port = await freePort();
    const endpoint = createServer(restate.createEndpointHandler({ services: [peer], logger }));
    await new Promise((resolve) => endpoint.listen(port, "127.0.0.1", resolve));
    await server.admin("/deployments", { uri: `http://127.0.0.1:${port}` });
    await sleep(1_000);
    for (let call = 0; call < 50; call += 1) await server.ingress("/peer/chain", 1);
    seen.ran = 0;
    await work(server);
  } finally {
    await server.stop();
  }
}

// Sends N chains that begin at `due`.
async function send(server, n, steps, due) {
  let sent = 0;
  const sender = async () => {
    while (sent < n) {
      sent += 1;
      const delay = Math.max(0, Math.round(due - performance.now()));
      await server.ingress(`/peer/chain/send${delay > 0 ? `?delay=${delay}ms` : ""}`, steps);
    }
  };
  await Promise.all(Array.from({ length: INSERTERS }, sender));
}

// Waits until N chains have run and the server has stored their completion. Resets the counter.
async function allDone(server, n) {
  while (seen.ran < n) await sleep(1);
  while ((await unfinished(server)) > 0) await sleep(5);
  if (seen.ran !== n) throw new Error(`ran ${seen.ran} times for ${n}`);
  seen.ran = 0;
}

async function unfinished(server) {
  const query = "select count(*) as left from sys_invocation_status where status <> 'completed'";
  const { rows } = await server.admin("/query", { query }, { accept: "application/json" });
  return rows[0].left;
}

// Standard output is for the figures.
function logger({ level }, ...message) {
  if (level === "error") process.stderr.write(`${message.join(" ")}\n`);
}

await main(
  { drain: drain("drain", 1), chain: drain("chain", STEPS), fanout, latency, signal, step },
  "no such workload",
);
