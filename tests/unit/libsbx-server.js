// SPDX-License-Identifier: Apache-2.0
// The other end of test-libsbx.c: an HTTP and WebSocket server that answers in every shape a daemon
// may, well and badly. It speaks RFC 6455 by hand, so that frames can be cut where they hurt.
// usage: node libsbx-server.js DIR   (makes DIR/sock and DIR/ca.pem; prints "ready PORT TLSPORT")
'use strict';
const http = require('http'), https = require('https'), fs = require('fs'), crypto = require('crypto');
const { execFileSync } = require('child_process');

const dir = process.argv[2];
const TOKEN = 'sesame';
const files = new Map();

function reply(res, status, body, type) {
  const text = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  res.writeHead(status, { 'Content-Type': type || 'application/json' });
  res.end(text);
}

const events = [
  '{"type":"start","seq":0}',
  '{"type":"output","seq":1,"stream":"stdout","data":"h\u00e9llo\\n"}',
  '{"type":"output","seq":2,"stream":"stderr","data":"\ufffd","data_base64":"/wAB"}',
  '{"type":"output","seq":3,"stream":"stdout","data":"a\\u0000b"}',
  '{"type":"exit","seq":4,"exit_code":3,"status":"failed"}',
];

// Pieces that end in the middle of lines and of characters.
function trickle(res, text) {
  const bytes = Buffer.from(text);
  res.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
  let at = 0;
  (function next() {
    if (at >= bytes.length) return res.end();
    res.write(bytes.subarray(at, at + 7));
    at += 7;
    setImmediate(next);
  })();
}

const routes = {
  'GET /echo': (req, res) => reply(res, 200, { method: req.method, url: req.url, headers: req.headers }),
  'POST /echo': (req, res, body) => reply(res, 200, { headers: req.headers, body: body.toString() }),
  'DELETE /echo': (req, res) => reply(res, 200, { method: req.method }),
  'GET /native-error': (req, res) =>
    reply(res, 404, { error: { code: 'not_found', message: 'no such sandbox' } }),
  'GET /field-error': (req, res) =>
    reply(res, 400, { error: { code: 'invalid_request', message: 'out of range', field: 'limits.cpu' } }),
  'GET /contract-error': (req, res) => reply(res, 409, { error: 'exec is terminal' }),
  'GET /detail-error': (req, res) => reply(res, 404, { detail: 'Action not found' }),
  'GET /text-error': (req, res) => reply(res, 503, '<html>busy</html>', 'text/html'),
  'GET /not-json': (req, res) => reply(res, 200, 'ok', 'text/plain'),
  'GET /private': (req, res) => req.headers.authorization === 'Bearer ' + TOKEN ?
    reply(res, 200, {}) : reply(res, 401, { error: { code: 'unauthorized', message: 'no token' } }),
  'GET /huge': (req, res) => {
    const piece = Buffer.alloc(1 << 20, 120);
    res.writeHead(200);
    (function next() {
      while (res.write(piece));
      if (!res.destroyed) res.once('drain', next);
    })();
  },
  'GET /cut': (req, res) => {
    res.writeHead(200, { 'Content-Length': '1000' });
    res.write('half', () => req.socket.destroy());
  },
  'GET /slow': () => {},
  'GET /longline': (req, res) => {
    res.writeHead(200);
    for (let i = 0; i < 20; i++) res.write(Buffer.alloc(1 << 20, 120));
    res.end();
  },
  'POST /v1/run': (req, res, body) => {
    const want = JSON.parse(body);
    if (want.command[0] === 'cut-stream') return trickle(res, events.slice(0, 2).join('\n') + '\n');
    if (want.command[0] === 'bad-stream') return trickle(res, events[0] + '\nnot json\n');
    if (want.command[0] === 'typeless') return trickle(res, '{"seq":1}\n');
    if (req.headers.accept === 'application/x-ndjson') return trickle(res, events.join('\r\n'));
    reply(res, 200, { stdout: 'out', stderr: '\ufffd', stderr_base64: '/wA=', exit_code: 3,
      status: 'failed', duration_ms: 12 });
  },
  'GET /v1/sandboxes/s%201/execs/e1/logs': (req, res) =>
    reply(res, 200, (req.url.includes('since=3') ? events.slice(3) : events).join('\n') + '\n'),
  'PUT /v1/sandboxes/s/files/content': (req, res, body) => { files.set(req.url, body); reply(res, 200, {}); },
  'GET /v1/sandboxes/s/files/content': (req, res) => {
    const body = files.get(req.url + '&mode=0640');
    body ? reply(res, 200, body, 'application/octet-stream') :
      reply(res, 404, { error: { code: 'not_found', message: 'no such file' } });
  },
  'POST /v1/sandboxes/s/files/mkdir': (req, res, body) => reply(res, 200, body),
  'POST /v1/sandbox/execute': (req, res, body) => {
    const want = JSON.parse(body);
    if (want.tool.name === 'calculator')
      return reply(res, 200, { tool_call_id: want.tool_call_id, status: 'ok',
        result: { expression: want.tool.args.expression, result: 127 }, exit_code: 0 });
    reply(res, 200, { status: 'error', error: { code: 'policy_denied', message: 'tool not allowed' }, exit_code: 1 });
  },
  'POST /sandboxes': (req, res, body) => {
    const id = JSON.parse(body).id || 'x';
    reply(res, 200, { id: 'sbx-' + id, namespace: 'sbx-' + id, pod_name: 'sandbox' });
  },
  'GET /sandboxes/sbx-x': (req, res) =>
    reply(res, 200, { id: 'sbx-x', namespace: 'sbx-x', pod_name: 'sandbox', phase: 'Running' }),
  'DELETE /sandboxes/sbx-x': (req, res) => reply(res, 200, { status: 'deleted' }),
  'POST /sandboxes/sbx-x/exec': (req, res, body) => {
    const want = JSON.parse(body);
    if (want.async) return reply(res, 200, { exec_id: 'e1', status: 'running' });
    reply(res, 200, { stdout: want.command.join('|') + ' ' + want.timeout_seconds, stderr: '',
      status: 'completed', exit_code: 0 });
  },
  'GET /sandboxes/sbx-x/execs/e1': (req, res) =>
    reply(res, 200, { sandbox_id: 'sbx-x', exec_id: 'e1', status: 'completed', exit_code: 0,
      started_at: '2026-01-02T03:04:05Z', finished_at: '2026-01-02T03:04:06Z', timeout_seconds: 9 }),
  'POST /sandboxes/sbx-x/execs/e1/cancel': (req, res) => reply(res, 409, { error: 'exec is completed' }),
};

function handle(req, res) {
  const parts = [];
  req.on('data', (d) => parts.push(d));
  req.on('end', () => {
    const route = routes[req.method + ' ' + req.url.split('?')[0]];
    if (!route) return reply(res, 404, { error: { code: 'not_found', message: 'no route ' + req.url } });
    route(req, res, Buffer.concat(parts));
  });
}

// --- WebSocket

function frame(opcode, payload, fin = true) {
  const data = Buffer.from(payload);
  let head;
  if (data.length < 126) head = Buffer.from([0, data.length]);
  else if (data.length < 65536) { head = Buffer.alloc(4); head[1] = 126; head.writeUInt16BE(data.length, 2); }
  else { head = Buffer.alloc(10); head[1] = 127; head.writeBigUInt64BE(BigInt(data.length), 2); }
  head[0] = (fin ? 0x80 : 0) | opcode;
  return Buffer.concat([head, data]);
}

// Calls on(opcode, payload) for each whole frame; refuses unmasked ones, as a server must.
function reader(socket, on) {
  let buf = Buffer.alloc(0);
  socket.on('data', (d) => {
    buf = Buffer.concat([buf, d]);
    for (;;) {
      if (buf.length < 2) return;
      let len = buf[1] & 0x7f, at = 2;
      if (len === 126) { if (buf.length < 4) return; len = buf.readUInt16BE(2); at = 4; }
      else if (len === 127) { if (buf.length < 10) return; len = Number(buf.readBigUInt64BE(2)); at = 10; }
      if (!(buf[1] & 0x80)) return socket.destroy();
      if (buf.length < at + 4 + len) return;
      const mask = buf.subarray(at, at + 4), data = Buffer.from(buf.subarray(at + 4, at + 4 + len));
      for (let i = 0; i < len; i++) data[i] ^= mask[i & 3];
      const opcode = buf[0] & 15;
      buf = buf.subarray(at + 4 + len);
      on(opcode, data);
    }
  });
}

const sockets = {
  '/ws/echo': (s) => reader(s, (op, data) => {
    if (op === 8) return s.end(frame(8, data));
    s.write(frame(op, data));
  }),
  // A fragmented message with a ping in the middle; the pong must come back before the goodbye.
  '/ws/fragments': (s) => {
    s.write(Buffer.concat([frame(1, 'one ', false), frame(9, 'ping'), frame(0, 'two ', false)]));
    reader(s, (op, data) => {
      if (op === 10 && data.toString() === 'ping')
        s.write(Buffer.concat([frame(0, 'three'), frame(8, Buffer.from([3, 232]))]));
    });
  },
  '/ws/vanish': (s) => s.destroy(),
  '/ws/error-close': (s) => s.end(frame(8, Buffer.concat([Buffer.from([3, 243]), Buffer.from('no')]))),
  '/ws/bad-utf8': (s) => s.write(frame(1, Buffer.from([0xff, 0xfe]))),
  '/ws/too-big': (s) => s.write(frame(2, Buffer.alloc(17 << 20))),
  '/ws/reserved': (s) => s.write(Buffer.from([0xf1, 0x01, 0x41])),
  // Writes a lot before it reads anything: a client that only writes would block for ever.
  '/ws/flood': (s) => {
    s.pause();
    let left = 64, got = 0;
    (function next() {
      while (left && left--) if (!s.write(frame(2, Buffer.alloc(128 << 10, left)))) return s.once('drain', next);
      reader(s, (op, data) => {
        got += op === 2 ? data.length : 0;
        if (op === 1) s.write(frame(1, String(got)));
      });
      s.resume();
    })();
  },
  '/sandboxes/sbx-x/stream?exec_id=e1': (s) => { for (const e of events) s.write(frame(1, e)); },
  '/sandboxes/sbx-x/stream?exec_id=cut': (s) => {
    s.write(frame(1, events[0]));
    s.end(frame(8, Buffer.from([3, 232])));
  },
};

function upgrade(req, s) {
  s.on('error', () => {});
  const make = sockets[req.url];
  if (req.url === '/ws/plain-200') return s.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
  if (!make && req.url !== '/ws/early' && req.url !== '/ws/bad-accept') {
    const body = '{"error":"no such sandbox"}';
    return s.end(`HTTP/1.1 404 Not Found\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  }
  const accept = crypto.createHash('sha1')
    .update(req.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
  const head = Buffer.from('HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${req.url === '/ws/bad-accept' ? 'AAAA' : accept}\r\n\r\n`);
  if (req.url === '/ws/early')
    return s.write(Buffer.concat([head, frame(1, 'early'), frame(1, 'bird')]));
  s.write(head);
  if (make) make(s);
}

execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost',
  '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', dir + '/key.pem', '-out', dir + '/ca.pem'],
{ stdio: 'ignore' });
const tls = { key: fs.readFileSync(dir + '/key.pem'), cert: fs.readFileSync(dir + '/ca.pem') };
const plain = http.createServer(handle).on('upgrade', upgrade);
const unix = http.createServer(handle).on('upgrade', upgrade);
const secure = https.createServer(tls, handle).on('upgrade', upgrade);
unix.listen(dir + '/sock', () => plain.listen(0, '127.0.0.1', () => secure.listen(0, '127.0.0.1', () =>
  console.log(`ready ${plain.address().port} ${secure.address().port}`))));
process.stdin.on('end', () => process.exit(0)).resume();
