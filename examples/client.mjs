// SPDX-License-Identifier: Apache-2.0
// The native API with Node's built-in fetch: a command in a sandbox of its own, then a sandbox that lasts with a file, a
// command whose output is followed while it runs, and its end.
//   MAS_SANDBOX_URL=http://127.0.0.1:8080 MAS_SANDBOX_TOKEN=... node examples/client.mjs
import { createInterface } from "node:readline";
import { Readable } from "node:stream";

const url = process.env.MAS_SANDBOX_URL ?? "http://127.0.0.1:8080";
const token = process.env.MAS_SANDBOX_TOKEN;

// The answer. A body that is no text becomes JSON.
async function call(method, path, body) {
  const answer = await fetch(url + path, {
    method,
    headers: token ? { Authorization: `Bearer ${token}` } : {},
    body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
  });
  if (!answer.ok) {
    const { error } = await answer.json();
    throw new Error(`${method} ${path}: ${answer.status} ${error.message}`);
  }
  return answer;
}

const callJson = async (...args) => (await call(...args)).json();

const run = await callJson("POST", "/v1/run", { command: ["echo", "hello"] });
console.log("one-shot:", run.stdout.trimEnd());

const { id } = await callJson("POST", "/v1/sandboxes", { limits: { memory_mb: 256 } });
const sandbox = `/v1/sandboxes/${id}`;
try {
  const script = "for i in 1 2 3; do echo line $i; done; exit 3\n";
  await callJson("PUT", `${sandbox}/files/content?path=/workspace/job.sh`, script);

  // "async" answers at once. The log is the command's journal: it can be read from the start, again, or by others.
  const started = await callJson("POST", `${sandbox}/exec`, { command: ["sh", "job.sh"], async: true });
  const log = await call("GET", `${sandbox}/execs/${started.exec_id}/logs?follow=1`);
  for await (const line of createInterface({ input: Readable.fromWeb(log.body) })) {
    const event = JSON.parse(line);
    if (event.type === "output") process.stdout.write(event.data);
    else if (event.type === "exit") console.log("exit code:", event.exit_code);
  }
} finally {
  await callJson("DELETE", sandbox);
}
