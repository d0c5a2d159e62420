// SPDX-License-Identifier: Apache-2.0
// Raw sockets for the tests of src/net: what is sent is exactly what the test says.
'use strict';
const net = require('net');
const tls = require('tls');
const crypto = require('crypto');
const { spawn } = require('child_process');

const PATIENCE_MS = 30000;
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
// Whether it came to hold in time.
async function eventually(test) {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await sleep(20)) if (await test()) return true;
  return false;
}

// A connection that keeps what it received. until(test) waits for test(all bytes) to be true, for the
// end of the connection, or for ms.
class Raw {
  constructor(where) {
    this.chunks = [];
    this.ended = false;
    this.failed = null;
    this.waiters = [];
    const to = { host: '127.0.0.1', ...where }; // not localhost, which may be ::1 first
    this.socket = where.tls ? tls.connect({ ...to, rejectUnauthorized: false }) : net.connect(to);
    this.open = new Promise((r) => this.socket.once(where.tls ? 'secureConnect' : 'connect', r));
    this.socket.on('data', (d) => { this.chunks.push(d); this.wakeSoon(); });
    this.socket.on('end', () => { this.ended = true; this.wake(); });
    this.socket.on('error', (e) => { this.failed = e.code; this.ended = true; this.wake(); });
    this.socket.on('close', () => { this.ended = true; this.wake(); });
  }
  wake() { this.soon = null; for (const w of this.waiters) w(); }
  // Looking at all bytes for every piece that comes would take longer than the transfer.
  wakeSoon() { if (!this.soon) this.soon = setTimeout(() => this.wake(), this.chunks.length > 20 ? 50 : 0); }
  get got() { if (this.chunks.length !== 1) this.chunks = [Buffer.concat(this.chunks)]; return this.chunks[0]; }
  set got(b) { this.chunks = [b]; }
  send(data) { this.socket.write(typeof data === 'string' ? Buffer.from(data, 'latin1') : data); return this; }
  get text() { return this.got.toString('latin1'); }
  // A test that holds ends the wait: the limit is for a host that is busy.
  until(test, ms = PATIENCE_MS) {
    return new Promise((resolve) => {
      const done = () => { clearTimeout(t); this.waiters = this.waiters.filter((w) => w !== check); resolve(this.text); };
      const check = () => { if (this.ended || test(this.text, this.got)) done(); };
      const t = setTimeout(done, ms);
      this.waiters.push(check);
      check();
    });
  }
  end(ms = PATIENCE_MS) { return this.until(() => false, ms); }
  destroy() { this.socket.destroy(); }
}

// Takes answers apart: [{status, headers, body}]; body null: not all here yet. head: the answer to a
// HEAD, which has a length but no body.
function answers(text, head = false) {
  const out = [];
  while (text) {
    const at = text.indexOf('\r\n\r\n');
    if (at < 0) break;
    const lines = text.slice(0, at).split('\r\n');
    const headers = {};
    for (const l of lines.slice(1)) headers[l.slice(0, l.indexOf(':')).toLowerCase()] = l.slice(l.indexOf(':') + 1).trim();
    const status = +lines[0].split(' ')[1];
    text = text.slice(at + 4);
    let body = '';
    if (headers['transfer-encoding'] === 'chunked') {
      for (;;) {
        const nl = text.indexOf('\r\n');
        const n = parseInt(text.slice(0, nl), 16);
        if (nl < 0 || !(n >= 0) || text.length < nl + 4 + n) { body = null; break; }
        body += text.slice(nl + 2, nl + 2 + n);
        text = text.slice(nl + 4 + n);
        if (n === 0) break;
      }
    } else if (headers['content-length']) {
      const n = status === 304 ? 0 : +headers['content-length'];
      body = head ? '' : text.length < n ? null : text.slice(0, n);
      text = text.slice(body === null ? 0 : body.length);
    } else if (status >= 200 && status !== 204) {
      body = text;
      text = '';
    }
    out.push({ status, headers, body });
    if (body === null) break;
  }
  return out;
}

// Starts a program that prints "listening PORT".
function start(program, args, env = {}) {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const server = { child, err: '', exit: new Promise((r) => child.on('exit', (code, signal) => r(signal || code))) };
  child.stderr.on('data', (d) => { server.err += d; });
  server.ready = new Promise((resolve, reject) => {
    let out = '';
    child.stdout.on('data', (d) => { out += d; const m = /listening (\d+)\n/.exec(out); if (m) resolve(+m[1]); });
    // Not 'exit', which may come before the last of stderr.
    child.on('close', () => reject(new Error('did not start: ' + server.err)));
  });
  return server;
}

// A client frame. options: fin, rsv, mask (false: unmasked), length (a lie about the length).
function frame(opcode, payload = '', { fin = true, rsv = 0, mask = true, length } = {}) {
  const data = Buffer.from(payload);
  const len = length === undefined ? data.length : length;
  const head = [(fin ? 0x80 : 0) | rsv << 4 | opcode];
  const m = mask ? 0x80 : 0;
  if (len < 126) head.push(m | len);
  else if (len < 65536) head.push(m | 126, len >> 8, len & 255);
  else { const b = Buffer.alloc(8); b.writeBigUInt64BE(BigInt(len)); head.push(m | 127, ...b); }
  if (!mask) return Buffer.concat([Buffer.from(head), data]);
  const key = crypto.randomBytes(4);
  const masked = Buffer.from(data);
  for (let i = 0; i < masked.length; i++) masked[i] ^= key[i & 3];
  return Buffer.concat([Buffer.from(head), key, masked]);
}

// Server frames in b: [{opcode, fin, data}], whole ones only.
function frames(b) {
  const out = [];
  for (let i = 0; i + 2 <= b.length;) {
    let len = b[i + 1] & 127, h = 2;
    if (len === 126) { if (i + 4 > b.length) break; len = b.readUInt16BE(i + 2); h = 4; }
    else if (len === 127) { if (i + 10 > b.length) break; len = Number(b.readBigUInt64BE(i + 2)); h = 10; }
    if (i + h + len > b.length) break;
    out.push({ fin: !!(b[i] & 0x80), opcode: b[i] & 15, masked: !!(b[i + 1] & 0x80), data: b.subarray(i + h, i + h + len) });
    i += h + len;
  }
  return out;
}

const WS_KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const upgrade = (extra = '', path = '/ws') =>
  `GET ${path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ${WS_KEY}\r\n` +
  `Sec-WebSocket-Version: 13\r\n${extra}\r\n`;

class Ws extends Raw {
  async hello(extra) {
    this.send(upgrade(extra));
    await this.until((t) => t.includes('\r\n\r\n'));
    const at = this.text.indexOf('\r\n\r\n') + 4;
    this.head = this.text.slice(0, at);
    this.got = this.got.subarray(at);
    return this;
  }
  get frames() { return frames(this.got); }
  async count(n, ms) { await this.until((_, b) => frames(b).length >= n, ms); return this.frames; }
  // The close code the server sent, 0 for none; waits for the end of the connection.
  async closed(ms) {
    await this.end(ms);
    const f = this.frames.find((x) => x.opcode === 8);
    return f && f.data.length >= 2 ? f.data.readUInt16BE(0) : 0;
  }
}

let count = 0, failed = 0;
function ok(good, name, detail = '') {
  console.log(`${good ? 'ok' : 'not ok'} ${++count} - ${name}`);
  if (!good) { failed++; console.log('# got: ' + JSON.stringify(detail).slice(0, 600)); }
}
function done() { console.log(`1..${count}`); process.exit(failed ? 1 : 0); }

module.exports = { Raw, Ws, answers, start, frame, frames, sleep, eventually, ok, done };
