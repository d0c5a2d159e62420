// SPDX-License-Identifier: Apache-2.0
// The official SDK's client for our scripts, and TAP: the target is the script's arguments, a URL or a
// command.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const require = createRequire(path.join(process.env.MCP_MODULES, "x.js"));
const load = (name) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + name)));
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { StdioClientTransport } = await load("client/stdio.js");
export const types = await load("types.js");

export const target = process.argv.slice(2);
export const http = target[0].startsWith("http");
let count = 0, failed = 0;

export function ok(good, what, said) {
    console.log(`${good ? "" : "not "}ok ${++count} - ${what}`);
    if (!good) {
        failed++;
        console.log("# " + JSON.stringify(said));
    }
}

export async function test(what, fn) {
    try {
        await fn(what);
    } catch (e) {
        ok(false, what, String(e && e.stack));
    }
}

// Bodies of answers under way, for tests that break connections.
export const readers = [];

async function tracked(url, init) {
    const r = await fetch(url, init);
    if (!r.body || !(r.headers.get("content-type") || "").includes("event-stream"))
        return r;
    const reader = r.body.getReader();
    const forget = () => { readers.includes(entry) && readers.splice(readers.indexOf(entry), 1); };
    let fail;
    const body = new ReadableStream({
        start(c) { fail = (e) => c.error(e); },
        async pull(c) {
            const { value, done } = await reader.read().catch(() => ({ done: true }));
            done ? (forget(), c.close()) : c.enqueue(value);
        },
        cancel() { forget(); return reader.cancel(); },
    });
    const entry = { answers: init.method === "POST",
                    abort: () => { fail(new Error("cut")); return reader.cancel().catch(() => {}); } };
    readers.push(entry);
    return new Response(body, { status: r.status, headers: r.headers });
}

function transport() {
    return http ? new StreamableHTTPClientTransport(new URL(target[0]), { fetch: tracked })
                : new StdioClientTransport({ command: target[0], args: target.slice(1), stderr: "ignore" });
}

export async function connect() {
    const client = new Client({ name: "check", version: "1" }, { capabilities: { sampling: {}, elicitation: {} } });
    const t = transport();
    client.errors = [];
    client.onerror = (e) => client.errors.push(String(e));
    await client.connect(t);
    return [client, t];
}

export const text = (result) => result.content[0].text;

export function done() {
    console.log(`1..${count}`);
    process.exit(failed ? 1 : 0);
}
