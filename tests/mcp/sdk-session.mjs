// SPDX-License-Identifier: Apache-2.0
// What an agent does in a session, with the official SDK's client: sdk-session.mjs URL, or
// sdk-session.mjs COMMAND... Prints TAP.
import { connect, done, http, ok, readers, test, text } from "./sdk.mjs";

const [client, link] = await connect();
const call = (name, args, options) => client.callTool({ name, arguments: args || {} }, undefined, options);
const pause = (ms) => new Promise((r) => setTimeout(r, ms));

await test("every tool says what it takes, gives and does", async (what) => {
    const { tools } = await client.listTools();
    ok(tools.every((t) => t.inputSchema.additionalProperties === false && t.outputSchema && t.title && t.annotations), what,
       tools.map((t) => t.name));
});

await test("a program is written", async (what) => {
    const r = await call("write_file", { path: "mean.py", content: "import sys\nv = [float(x) for x in sys.argv[1:]]\n"
        + "print(sum(v) / len(w))\n" });
    ok(!r.isError && r.structuredContent.bytes > 0, what, r);
});

await test("it runs and fails, and says why", async (what) => {
    const r = await call("run_command", { command: "python3 mean.py 1 2 6" });
    ok(r.structuredContent.exit_code === 1 && r.structuredContent.stderr.includes("NameError"), what, r);
});

await test("an edit that does not fit changes nothing, and says what to do", async (what) => {
    const r = await call("edit_file", { path: "mean.py", old_text: "nowhere", new_text: "x" });
    ok(r.isError && text(r).length > 20, what, r);
});

await test("it is edited and runs", async (what) => {
    await call("edit_file", { path: "mean.py", old_text: "len(w)", new_text: "len(v)" });
    const r = await call("run_command", { command: "python3 mean.py 1 2 6" });
    ok(r.structuredContent.exit_code === 0 && r.structuredContent.stdout === "3.0\n", what, r);
});

await test("progress while a command runs", async (what) => {
    const seen = [];
    const r = await call("run_command", { command: "for i in 1 2 3 4; do echo step $i; sleep 0.4; done" },
                         { onprogress: (p) => seen.push(p.progress) });
    ok(r.structuredContent.exit_code === 0 && seen.length > 0 && seen.every((n, i) => i === 0 || n > seen[i - 1]), what, seen);
});

await test("a cancelled command is killed", async (what) => {
    const stop = new AbortController();
    const long = call("run_command", { command: "sleep 6543" }, { signal: stop.signal })
        .then(() => "answered", () => "aborted");
    const running = async () => text(await call("run_command", { command: "ps -C sleep -o args= | grep -c 6543" })).trim()[0];
    for (let i = 0; i < 50 && await running() !== "1"; i++)
        await pause(50);
    const before = await running();
    stop.abort("enough");
    for (let i = 0; i < 100 && await running() !== "0"; i++)
        await pause(50);
    ok(before === "1" && await long === "aborted" && await running() === "0", what, [before, await running()]);
});

await test("a long command is started, read while it runs, fed, and stopped", async (what) => {
    const { exec_id } = (await call("start_command", { command: "while read x; do echo got $x; done" })).structuredContent;
    await call("send_input", { exec_id, text: "one\n" });
    let r;
    for (let i = 0; i < 50 && !(r && r.structuredContent.text.includes("got one")); i++)
        r = await call("read_output", { exec_id, wait_s: 0.2 });
    const stopped = await call("stop_command", { exec_id });
    ok(r.structuredContent.text === "got one\n" && stopped.structuredContent.status !== "running", what, [r, stopped]);
});

if (http) {
    await test("a connection that breaks in the middle of a call is taken up again", async (what) => {
        const seen = [];
        const ended = call("run_command", { command: "for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done; echo end" },
                           { onprogress: (p) => seen.push(p.progress), resetTimeoutOnProgress: true });
        await pause(800);
        // Every answer that is being read now is cut; the client comes back with the last event's id.
        const cut = readers.splice(0);
        for (const reader of cut)
            await reader.abort();
        const r = await ended;
        ok(cut.some((c) => c.answers) && r.structuredContent.stdout.endsWith("6\nend\n"), what, [r, seen]);
    });
    await test("another session has another sandbox, the same one its files", async (what) => {
        const [second] = await connect();
        const a = await call("run_command", { command: "ls" });
        const b = await second.callTool({ name: "run_command", arguments: { command: "ls" } });
        await second.close();
        ok(text(a).includes("mean.py") && !text(b).includes("mean.py"), what, [a, b]);
    });
    await link.terminateSession();
}

await client.close();
done();
