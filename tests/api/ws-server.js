// SPDX-License-Identifier: Apache-2.0
// usage: node ws-server.js HTTP-ECHO
// WebSocket behaviour of src/net over real sockets, against tests/unit/http-echo.c. TAP.
'use strict';
const { Raw, Ws, answers, start, frame, frames, sleep, ok, done } = require('./net-client.js');

const program = process.argv[2];
const TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10;
const code = (n, reason = '') => { const b = Buffer.alloc(2); b.writeUInt16BE(n); return Buffer.concat([b, Buffer.from(reason)]); };

async function handshakes(where) {
  let w = await new Ws(where).hello();
  ok(/^HTTP\/1\.1 101 /.test(w.head) && /Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/.test(w.head), 'the handshake of RFC 6455', w.head);
  w.destroy();
  const base = { Upgrade: 'websocket', Connection: 'keep-alive, Upgrade', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version': '13' };
  for (const [name, change, status] of [
    ['no key', { 'Sec-WebSocket-Key': null }, 400], ['a short key', { 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZQ==' }, 400],
    ['a key that is not base64', { 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25j*Q==' }, 400],
    ['no version', { 'Sec-WebSocket-Version': null }, 400], ['version 8', { 'Sec-WebSocket-Version': '8' }, 426],
    ['a body', { 'Content-Length': '3' }, 400], ['no Connection: upgrade', { Connection: 'keep-alive' }, 200], ['another protocol', { Upgrade: 'h2c' }, 200]]) {
    const fields = Object.entries({ Host: 'x', ...base, ...change }).filter(([, v]) => v !== null).map(([k, v]) => `${k}: ${v}\r\n`).join('');
    const c = new Raw(where).send(`GET /ws HTTP/1.1\r\n${fields}\r\nabc`);
    const a = answers(await c.until((t) => answers(t).some((x) => x.body !== null)));
    ok(a[0] && a[0].status === status, `${name}: ${status}`, a);
    c.destroy();
  }
  const c = new Raw(where).send(`POST /ws HTTP/1.1\r\nHost: x\r\n${Object.entries(base).map(([k, v]) => `${k}: ${v}\r\n`).join('')}\r\n`);
  const a = answers(await c.until((t) => answers(t).some((x) => x.body !== null)));
  ok(a[0] && a[0].status === 400, 'POST is no handshake', a);
  c.destroy();
}

async function echoes(where) {
  for (const size of [0, 1, 125, 126, 127, 65535, 65536, 1048576]) {
    for (const opcode of [TEXT, BINARY]) {
      const w = await new Ws(where).hello();
      const payload = Buffer.alloc(size, 'x');
      w.send(frame(opcode, payload));
      const f = await w.count(1);
      ok(f.length === 1 && f[0].opcode === opcode && f[0].fin && !f[0].masked && f[0].data.equals(payload), `echo of ${size} bytes, opcode ${opcode}`, f.length);
      w.destroy();
    }
  }
  let w = await new Ws(where).hello();
  const bytes = Buffer.concat([frame(TEXT, 'frag', { fin: false }), frame(PING, 'in between'), frame(0, 'men', { fin: false }), frame(0, '', { fin: false }), frame(0, 't \u00e9')]);
  for (const b of bytes) { w.send(Buffer.from([b])); if (b & 1) await sleep(1); }
  let f = await w.count(2);
  ok(f.length === 2 && f[0].opcode === PONG && f[0].data.toString() === 'in between' && f[1].data.toString() === 'fragment \u00e9',
    'a fragmented message with a ping between, byte by byte', f);
  w.send(frame(PONG, 'unasked'));
  w.send(frame(TEXT, 'still here'));
  f = await w.count(3);
  ok(f[2] && f[2].data.toString() === 'still here', 'an unasked pong is ignored', f);
  w.destroy();

  w = await new Ws(where).hello();
  const all = [];
  for (let i = 0; i < 5000; i++) all.push(frame(TEXT, 'message ' + i));
  w.send(Buffer.concat(all));
  f = await w.count(5000);
  ok(f.length === 5000 && f.every((x, i) => x.data.toString() === 'message ' + i), '5000 messages in order', f.length);
  w.destroy();

  w = await new Ws(where).hello();
  // Split inside a character, at fragment borders too.
  const u = Buffer.from('\u00b5@\u00df\u00f6\u00e4\u{10348}');
  w.send(Buffer.concat([...u].map((b, i) => frame(i ? 0 : TEXT, Buffer.from([b]), { fin: i === u.length - 1 }))));
  f = await w.count(1);
  ok(f[0] && f[0].data.equals(u), 'characters split over fragments', f);
  w.destroy();

  w = new Ws(where);
  w.send('GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n');
  w.send(frame(TEXT, 'eager'));
  await w.until((t) => t.endsWith('eager'));
  ok(w.text.endsWith('eager'), 'a frame right behind the handshake', w.text);
  w.destroy();
}

async function violations(where) {
  const big = Buffer.alloc(126, 'p');
  for (const [name, bytes, want] of [
    ['unmasked frame', frame(TEXT, 'x', { mask: false }), 1002],
    ['reserved bit 1', frame(TEXT, 'x', { rsv: 4 }), 1002],
    ['reserved bit 3', frame(TEXT, 'x', { rsv: 1 }), 1002],
    ['reserved opcode 3', frame(3, 'x'), 1002],
    ['reserved control opcode 11', frame(11, ''), 1002],
    ['fragmented ping', frame(PING, 'x', { fin: false }), 1002],
    ['ping of 126 bytes', frame(PING, big), 1002],
    ['continuation of nothing', frame(0, 'x'), 1002],
    ['a new message inside a message', Buffer.concat([frame(TEXT, 'a', { fin: false }), frame(TEXT, 'b')]), 1002],
    ['oversized frame', frame(BINARY, 'x', { length: 17 * 1024 * 1024 }), 1009],
    ['a length of 2^62', frame(BINARY, 'x', { length: 2 ** 62 }), 1009],
    ['bad UTF-8', frame(TEXT, Buffer.from([0xc0, 0xaf])), 1007],
    ['surrogate in UTF-8', frame(TEXT, Buffer.from([0xed, 0xa0, 0x80])), 1007],
    ['truncated UTF-8 at the end', frame(TEXT, Buffer.from([0xe2, 0x82])), 1007],
    ['bad UTF-8 in a first fragment', frame(TEXT, Buffer.from([0xff]), { fin: false }), 1007],
    ['close code 999', frame(CLOSE, code(999)), 1002],
    ['close code 1004', frame(CLOSE, code(1004)), 1002],
    ['close code 1005', frame(CLOSE, code(1005)), 1002],
    ['close code 1006', frame(CLOSE, code(1006)), 1002],
    ['close code 2999', frame(CLOSE, code(2999)), 1002],
    ['close code 5000', frame(CLOSE, code(5000)), 1002],
    ['close of one byte', frame(CLOSE, 'x'), 1002],
    ['close with a bad reason', frame(CLOSE, Buffer.concat([code(1000), Buffer.from([0xff])])), 1007],
    ['close of 126 bytes', frame(CLOSE, Buffer.concat([code(1000), Buffer.alloc(124, 'a')])), 1002],
    ['close 1000', frame(CLOSE, code(1000, 'bye')), 1000],
    ['close 3000', frame(CLOSE, code(3000)), 3000],
    ['close 4999', frame(CLOSE, code(4999)), 4999],
    ['close without a code', frame(CLOSE), 0],
    ['the server closing', frame(TEXT, 'close'), 1001],
  ]) {
    const w = await new Ws(where).hello();
    w.send(bytes);
    if (name === 'the server closing') { await w.count(1); w.send(frame(CLOSE, code(1001))); }
    const got = await w.closed();
    ok(got === want && w.ended && w.frames.some((x) => x.opcode === CLOSE), `${name}: closed with ${want}`, [got, w.ended, w.frames]);
    w.destroy();
  }
  const w = await new Ws(where).hello();
  for (let i = 0; i < 17; i++) w.send(frame(i ? 0 : BINARY, Buffer.alloc(1024 * 1024), { fin: false }));
  ok(await w.closed() === 1009, 'a message too big in fragments: closed with 1009');
  w.destroy();
}

// A client that sends and never reads must not make the server buffer without end.
async function backpressure(where) {
  const w = await new Ws(where).hello();
  w.socket.pause();
  const block = frame(BINARY, Buffer.alloc(1024 * 1024));
  let taken = 0;
  const sent = (async () => { for (let i = 0; i < 64; i++) { await new Promise((r) => w.socket.write(block, r)); taken++; } })();
  for (let before = -1; taken !== before; await sleep(1000)) before = taken;
  const other = await new Ws(where).hello();
  other.send(frame(TEXT, 'hi'));
  ok((await other.count(1)).length === 1, 'others are served while one does not read');
  other.destroy();
  ok(taken < 32, 'the server stops taking its messages', taken);
  w.socket.resume();
  await sent;
  const f = await w.count(64);
  ok(f.length === 64 && f.every((x) => x.data.length === 1024 * 1024), 'and all are echoed once it reads', f.length);
  w.destroy();
}

// Against a server with short timeouts (ECHO_FAST).
async function halfOpen(where) {
  let w = await new Ws(where).hello();
  const at = Date.now();
  await w.end();
  ok(w.ended && w.frames.filter((f) => f.opcode === PING).length === 2, 'a peer that misses two pings is closed', [Date.now() - at, w.frames]);
  let seen;
  for (let i = 0; i < 5; i++) { // where the host stops us for longer than two pings, once more
    w = await new Ws(where).hello();
    seen = 0;
    const answer = setInterval(() => {
      const pings = w.frames.filter((f) => f.opcode === PING);
      for (; seen < pings.length; seen++) w.send(frame(PONG, pings[seen].data));
    }, 20);
    await w.until(() => seen > 3);
    clearInterval(answer);
    if (!w.ended) break;
  }
  ok(!w.ended && seen > 3, 'one that answers is not', seen);
  w.destroy();
}

async function drain() {
  const s = start(program, ['127.0.0.1:0']);
  const w = await new Ws({ port: await s.ready }).hello();
  s.child.kill('SIGTERM');
  await w.count(1);
  ok(frames(w.got)[0] && frames(w.got)[0].data.readUInt16BE(0) === 1001, 'draining closes with 1001', w.frames);
  w.send(frame(CLOSE, code(1001)));
  ok(await s.exit === 0, 'and ends', s.err);
}

(async () => {
  const s = start(program, ['127.0.0.1:0']);
  const where = { port: await s.ready, host: '127.0.0.1' };
  await handshakes(where);
  await echoes(where);
  await violations(where);
  await backpressure(where);
  s.child.kill('SIGTERM');
  ok(await s.exit === 0, 'the server ends cleanly', s.err);
  const fast = start(program, ['127.0.0.1:0'], { ECHO_FAST: '1' });
  await halfOpen({ port: await fast.ready, host: '127.0.0.1' });
  fast.child.kill('SIGTERM');
  ok(await fast.exit === 0, 'the fast server ends cleanly', fast.err);
  await drain();
  done();
})();
