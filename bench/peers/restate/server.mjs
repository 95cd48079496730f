// A private Restate server with a new store on the disk, and functions that send requests to it.

import { spawn } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";

import { sleep } from "../figures.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));

// Starts a server and resolves when it is ready.
export async function startServer(settings) {
  const [ingress, admin, node] = await Promise.all([freePort(), freePort(), freePort()]);
  const store = `${HERE}restate-data/${process.pid}`;
  mkdirSync(store, { recursive: true });
  const child = spawn(`${HERE}node_modules/.bin/restate-server`, ["--no-logo"], {
    stdio: ["ignore", 2, 2],
    env: {
      ...process.env,
      RESTATE_BASE_DIR: store,
      RESTATE_LISTEN_MODE: "tcp",
      RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
      RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}`,
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RESTATE_DISABLE_TELEMETRY: "true",
      RESTATE_LOG_FILTER: "error",
      ...settings,
    },
  });
  const stopped = new Promise((resolve) => child.once("exit", resolve));
  const stop = () => {
    child.kill("SIGKILL");
    rmSync(store, { recursive: true, force: true });
  };
  process.once("exit", stop);
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

  const server = {
    ingress: poster(ingress),
    admin: poster(admin),
    async stop() {
      child.kill("SIGTERM");
      await Promise.race([stopped, sleep(5_000)]);
      stop();
    },
  };
  while (!(await healthy(ingress, "/restate/health")) || !(await healthy(admin, "/health"))) {
    if (child.exitCode !== null) throw new Error("restate-server ended");
    await sleep(50);
  }
  return server;
}

// Returns a function that posts JSON over persistent connections.
function poster(port) {
  const agent = new Agent({ keepAlive: true, maxSockets: 256 });
  return (path, body, headers = {}) =>
    new Promise((resolve, reject) => {
      const text = JSON.stringify(body);
      const req = request(
        {
          agent,
          host: "127.0.0.1",
          port,
          path,
          method: "POST",
          headers: {
            "content-type": "application/json",
            "content-length": Buffer.byteLength(text),
            ...headers,
          },
        },
        (res) => {
          let answer = "";
          res.setEncoding("utf8");
          res.on("data", (part) => (answer += part));
          res.on("end", () => {
            if (res.statusCode >= 300) reject(new Error(`${path}: ${res.statusCode} ${answer}`));
            else resolve(answer === "" ? undefined : JSON.parse(answer));
          });
        },
      );
      req.once("error", reject);
      req.end(text);
    });
}

async function healthy(port, path) {
  try {
    return (await fetch(`http://127.0.0.1:${port}${path}`)).ok;
  } catch {
    return false;
  }
}

export function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
