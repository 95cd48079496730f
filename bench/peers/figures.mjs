// The output of every peer in JavaScript: one JSON object per line on standard output.

// A run that takes longer than this has failed.
const DEADLINE_MS = 900_000;

const print = (object) => process.stdout.write(`${JSON.stringify(object)}\n`);

// Prints the name, the version and the setup of the peer.
export const about = (peer, version, configuration) =>
  print({ name: "about", peer, version, configuration });

// Prints one figure.
export const figure = (name, value, unit) => print({ name, value, unit });

// Prints the rate of `count` operations per second.
export const rate = (name, count, ms, unit) => figure(name, (count / ms) * 1e3, unit);

// Prints the median and the 99th percentile of `samples`, in milliseconds.
export function percentiles(name, samples) {
  const sorted = samples.toSorted((a, b) => a - b);
  for (const [label, share] of [["p50", 0.5], ["p99", 0.99]]) {
    figure(`${name} ${label}`, sorted[Math.max(Math.ceil(sorted.length * share), 1) - 1], "ms");
  }
}

// Prints the mean time between two steps, over the middle half of `starts`. The first and the last
// steps also contain the start and the end of the chain.
export function stepTime(starts) {
  if (starts.length < 4) throw new Error("a chain of fewer than 4 steps has no middle");
  const [from, to] = [Math.floor(starts.length / 4), Math.floor((starts.length * 3) / 4)];
  figure("step", (starts[to] - starts[from]) / (to - from), "ms");
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Runs the workload of the command line with N and the database's address, and ends the process. The
// exit code is 0 when it completed, 3 when the peer does not offer it, 1 when it failed.
export async function main(workloads, whyNot) {
  const [workload, count, url] = process.argv.slice(2);
  const n = Number(count);
  if (!workload || !Number.isSafeInteger(n) || n < 1) {
    process.stderr.write("usage: run WORKLOAD N URL\n");
    process.exit(2);
  }
  if (!Object.hasOwn(workloads, workload)) {
    process.stderr.write(`not offered: ${whyNot}\n`);
    process.exit(3);
  }
  const overdue = setTimeout(() => {
    process.stderr.write("not done in time\n");
    process.exit(1);
  }, DEADLINE_MS);
  try {
    await workloads[workload](n, url);
    clearTimeout(overdue);
    process.exit(0);
  } catch (error) {
    process.stderr.write(`${error.stack ?? error}\n`);
    process.exit(1);
  }
}
