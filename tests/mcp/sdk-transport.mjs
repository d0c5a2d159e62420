// SPDX-License-Identifier: Apache-2.0
// The official SDK's client against the fixtures: sdk-transport.mjs URL, or sdk-transport.mjs COMMAND...
// Prints TAP.
import { connect, done, http, ok, test, text, types } from "./sdk.mjs";

const [client, link] = await connect();

await test("what the server is", (what) => {
    ok(client.getServerVersion().name === "mas-sandbox" && client.getServerCapabilities().tools, what,
       client.getServerVersion());
});

await test("tools are listed, every one with a schema", async (what) => {
    const { tools } = await client.listTools();
    ok(tools.length > 10 && tools.every((t) => t.inputSchema.type === "object" && t.description), what, tools);
});

await test("a structured result fits the tool's output schema", async (what) => {
    const r = await client.callTool({ name: "test_echo", arguments: { text: "äöü" } });
    ok(r.structuredContent.text === "äöü", what, r);
});

await test("wrong arguments are something to read", async (what) => {
    const r = await client.callTool({ name: "test_echo", arguments: { txt: 1 } });
    ok(r.isError && text(r).includes("text"), what, r);
});

await test("an unknown tool is an error of the protocol", async (what) => {
    const e = await client.callTool({ name: "nope" }).then(() => null, (x) => x);
    ok(e && e.code === -32602, what, String(e));
});

await test("progress comes while a tool runs", async (what) => {
    const seen = [];
    await client.callTool({ name: "test_tool_with_progress", arguments: {} }, undefined,
                          { onprogress: (p) => seen.push(p.progress) });
    // The SDK drops what comes in the same read as the answer: the last one may be missing here.
    ok("0,50,100".startsWith(seen.join()) && seen.length >= 2, what, seen);
});

await test("logs come while a tool runs", async (what) => {
    const seen = [];
    client.setNotificationHandler(types.LoggingMessageNotificationSchema, (n) => { seen.push(n.params.data); });
    await client.setLoggingLevel("info");
    await client.callTool({ name: "test_tool_with_logging", arguments: {} });
    ok(seen.length === 3, what, seen);
});

await test("the server asks the client's model and user", async (what) => {
    client.setRequestHandler(types.CreateMessageRequestSchema, async () => (
        { role: "assistant", content: { type: "text", text: "because" }, model: "m" }));
    client.setRequestHandler(types.ElicitRequestSchema, async () => (
        { action: "accept", content: { username: "u", email: "e" } }));
    const a = await client.callTool({ name: "test_sampling", arguments: { prompt: "why" } });
    const b = await client.callTool({ name: "test_elicitation", arguments: { message: "who" } });
    ok(text(a).includes("because") && text(b).includes("accept"), what, [a, b]);
});

await test("a call is cancelled, and others go on", async (what) => {
    const stop = new AbortController();
    const long = client.callTool({ name: "test_sleep", arguments: { ms: 600000 } }, undefined, { signal: stop.signal })
        .then(() => "answered", () => "aborted");
    setTimeout(() => stop.abort("enough"), 200);
    const other = await client.callTool({ name: "test_simple_text" });
    ok(await long === "aborted" && text(other).includes("simple"), what, other);
});

await test("twenty calls at once, each its own answer", async (what) => {
    const all = await Promise.all([...Array(20).keys()].map((i) => (
        client.callTool({ name: "test_echo", arguments: { text: "n" + i } }))));
    ok(all.every((r, i) => r.structuredContent.text === "n" + i), what, all);
});

await test("a resource is read, watched, and changes", async (what) => {
    const seen = [];
    client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, (n) => { seen.push(n.params.uri); });
    await client.subscribeResource({ uri: "test://watched-resource" });
    for (let i = 0; i < 50 && !seen.length; i++) {
        await client.callTool({ name: "test_touch" });
        await new Promise((r) => setTimeout(r, 50));
    }
    const { contents } = await client.readResource({ uri: "test://watched-resource" });
    ok(contents[0].text && seen[0] === "test://watched-resource", what, [contents, seen]);
});

await test("prompts and completion", async (what) => {
    const p = await client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "x", arg2: "y" } });
    const c = await client.complete({ ref: { type: "ref/prompt", name: "test_prompt_with_arguments" },
                                      argument: { name: "arg1", value: "par" } });
    ok(p.messages[0].content.text.includes("arg1='x'") && c.completion.values.includes("paris"), what, [p, c]);
});

if (http) {
    await test("a stream that the server closes is taken up again", async (what) => {
        const r = await client.callTool({ name: "test_reconnection", arguments: {} });
        ok(text(r) === "Done.", what, r);
    });
    await test("a session that was ended is gone, a new one works", async (what) => {
        await link.terminateSession();
        const e = await client.ping().then(() => null, (x) => x);
        const [second] = await connect();
        await second.ping();
        await second.close();
        ok(e !== null, what, String(e));
    });
}

await client.close();
done();
