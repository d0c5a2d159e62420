// SPDX-License-Identifier: Apache-2.0
// usage: node http-server.js HTTP-ECHO
// HTTP behaviour of src/net over real sockets, against tests/unit/http-echo.c. TAP.
'use strict';
const fs = require('fs');
const os = require('os');
const path = require('path');
const { execFileSync } = require('child_process');
const { Raw, Ws, answers, start, frame, sleep, eventually, ok, done } = require('./net-client.js');

const program = process.argv[2];
const MiB = 1024 * 1024;
const statuses = (t) => answers(t).map((a) => a.status);
const get = (target, extra = '') => `GET ${target} HTTP/1.1\r\nHost: x\r\n${extra}\r\n`;
const post = (target, body, extra = '') => `POST ${target} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n${extra}\r\n${body}`;

async function talk(where, bytes, n, ms) {
  const c = new Raw(where);
  c.send(bytes);
  const text = await c.until((t) => answers(t).filter((a) => a.body !== null).length >= n, ms);
  c.destroy();
  return answers(text);
}

async function messages(where) {
  let a = await talk(where, get('/'), 1);
  ok(a[0].status === 200 && a[0].body === 'ok' && a[0].headers['content-length'] === '2', 'GET', a);
  ok(/^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/.test(a[0].headers.date), 'Date', a);

  a = await talk(where, post('/echo', 'hello') + get('/'), 2);
  ok(a[0].body === 'hello' && a[1].body === 'ok', 'body, then the next request', a);

  let many = '';
  for (let i = 0; i < 300; i++) many += get(`/info?q=${i}`) + (i % 50 ? '' : get('/slow?ms=5'));
  a = await talk(where, many, 306);
  const order = a.filter((x) => x.body !== 'slow').map((x) => +/q=(\d+)/.exec(x.body)[1]);
  ok(a.length === 306 && order.every((q, i) => q === i), 'pipelined answers come in order', a.length);

  const c = new Raw(where);
  for (const b of 'POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b;c="d\\"e"\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: x\r\n\r\n' + get('/')) {
    c.send(b);
    if (Math.random() < 0.2) await sleep(1);
  }
  a = answers(await c.until((t) => answers(t).length >= 2));
  ok(a[0].body === 'hello world' && a[1].body === 'ok', 'chunked body, byte by byte, trailers dropped', a);
  c.destroy();

  const h = new Raw(where).send('HEAD / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(2));
  a = answers(await h.until((t) => answers(t, true).length === 2), true);
  await sleep(50);
  ok(a.length === 2 && a[1].headers['content-length'] === '2' && h.text.endsWith('\r\n\r\n'), 'HEAD has a length and no body', h.text);
  h.destroy();

  const body = 'b'.repeat(3 * MiB);
  a = await talk(where, post('/echo', body), 1);
  ok(a[0] && a[0].body === body, '3 MiB echo', a[0] && a[0].status);

  a = await talk(where, 'M-SEARCH /info HTTP/1.1\r\nHost: x\r\n\r\n', 1);
  ok(/^M-SEARCH \/info/.test(a[0].body), 'other methods reach the handler', a);
  a = await talk(where, 'BREW / HTTP/1.1\r\nHost: x\r\n\r\n', 1);
  ok(a[0].status === 501, 'a method nobody knows is 501', a);
}

async function targets(where) {
  const info = async (target, extra = 'Host: x\r\n') => (await talk(where, `GET ${target} HTTP/1.1\r\n${extra}\r\n`, 1))[0];
  let a = await info('/%69nfo?q=a%26b+c&q=2');
  ok(/ \/info q=a&b c /.test(a.body), 'path and query are decoded', a);
  a = await info('http://user@other:8/info?q=1');
  ok(/ \/info q=1 host=other:8 /.test(a.body), 'an absolute target overrules Host', a);
  a = await info('http://other');
  ok(a.status === 200 && a.body === 'ok', 'an absolute target without a path', a);
  for (const t of ['/%00', '/%', '/%4', '/%zz', '/?q=%00', '/?%', 'info', 'ftp://x/', 'http://', '/\x01', '/\x7f', '/\xe9', '?x'])
    ok((await info(t)).status === 400, `target ${JSON.stringify(t)} is refused`, t);
  a = await info('/info');
  ok(a.headers['x-split'] === 'a  X-Injected: b' && !a.headers['x-injected'], 'an answer cannot be split', a);
}

async function refusals(where) {
  const cases = [
    ['Content-Length and Transfer-Encoding', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n', 400],
    ['two Content-Length that agree', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na', 400],
    ['a list of lengths', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\na', 400],
    ['a signed length', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na', 400],
    ['a huge length', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551617\r\n\r\na', 400],
    ['two Host', 'GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n', 400],
    ['no Host', 'GET / HTTP/1.1\r\n\r\n', 400],
    ['a Host with a path', 'GET / HTTP/1.1\r\nHost: x/y\r\n\r\n', 400],
    ['chunked twice', 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n', 400],
    ['two Transfer-Encoding', 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n', 400],
    ['identity', 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n', 400],
    ['a coding we lack', 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n', 501],
    ['chunked in HTTP/1.0', 'POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 400],
    ['bare LF', 'GET / HTTP/1.1\nHost: x\n\n', 400],
    ['bare LF in a field', 'GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n', 400],
    ['bare CR in a value', 'GET / HTTP/1.1\r\nHost: x\ry\r\n\r\n', 400],
    ['space before a colon', 'GET / HTTP/1.1\r\nHost : x\r\n\r\n', 400],
    ['space before the first field', 'GET / HTTP/1.1\r\n Host: x\r\n\r\n', 400],
    ['folding', 'GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n', 400],
    ['NUL in a value', 'GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n', 400],
    ['NUL in a name', 'GET / HTTP/1.1\r\nHost: x\r\nA\0: b\r\n\r\n', 400],
    ['two spaces', 'GET  / HTTP/1.1\r\nHost: x\r\n\r\n', 400],
    ['space after the version', 'GET / HTTP/1.1 \r\nHost: x\r\n\r\n', 400],
    ['HTTP/0.9', 'GET /\r\n\r\n', 505],
    ['HTTP/2.0', 'GET / HTTP/2.0\r\nHost: x\r\n\r\n', 505],
    ['HTTP/1.2', 'GET / HTTP/1.2\r\nHost: x\r\n\r\n', 505],
    ['http/1.1', 'GET / http/1.1\r\nHost: x\r\n\r\n', 400],
    ['CONNECT', 'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', 501],
    ['an unknown expectation', 'POST / HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 1\r\n\r\na', 417],
    ['a TLS hello', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
    ['a chunk size with a sign', 'POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n', 400],
    ['a chunk size with 0x', 'POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n', 400],
    ['a chunk size of 17 digits', 'POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000001\r\n', 400],
    ['a chunk line with bare LF', 'POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n', 400],
    ['chunk data without CRLF', 'POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\naa0\r\n\r\n', 400],
    ['a trailer with bare LF', 'POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\r\n', 400],
    ['endless chunk extensions', 'POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;' + 'a'.repeat(20000), 400],
    ['endless trailers', 'POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n' + 'A: b\r\n'.repeat(5000), 400],
    ['a header bomb', get('/', 'A: ' + 'b'.repeat(40000) + '\r\n'), 431],
    ['a head without an end', 'GET / HTTP/1.1\r\nHost: x\r\nA: ' + 'b'.repeat(40000), 431],
    ['101 fields', get('/', 'A: b\r\n'.repeat(101)), 431],
    ['65 query parameters', get('/?' + 'a&'.repeat(65)), 400],
  ];
  for (const [name, bytes, status] of cases) {
    const c = new Raw(where);
    c.send(bytes + get('/info?q=smuggled'));
    const text = await c.until((t) => answers(t).length > 0 && c.ended);
    const a = answers(text);
    ok(a.length === 1 && a[0].status === status && a[0].headers.connection === 'close' && c.ended,
      `${name}: ${status} and close`, [text, c.failed]);
    c.destroy();
  }
  const a = await talk(where, get('/') + '\x01garbage\r\n\r\n', 2);
  ok(a[0].status === 200 && a[1].status === 400, 'garbage behind a good request', a);
}

async function connections(where) {
  let c = new Raw(where);
  c.send('GET / HTTP/1.0\r\n\r\n' + get('/'));
  let a = answers(await c.end());
  ok(a.length === 1 && a[0].headers.connection === 'close', 'HTTP/1.0 closes', a);

  c = new Raw(where);
  c.send('GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n'.repeat(2));
  a = answers(await c.until((t) => answers(t).length === 2 && t.endsWith('ok')));
  ok(a.length === 2 && a[1].headers.connection === 'keep-alive' && !c.ended, 'HTTP/1.0 keep-alive', a);
  c.destroy();

  c = new Raw(where);
  c.send(get('/', 'Connection: foo, Close\r\n') + get('/'));
  a = answers(await c.end());
  ok(a.length === 1 && a[0].headers.connection === 'close', 'Connection: close', a);

  c = new Raw(where);
  c.send('GET /stream?kb=64 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n');
  a = answers(await c.end());
  ok(a[0].body.length === 65536 && !a[0].headers['transfer-encoding'], 'HTTP/1.0 gets a stream unchunked', a[0].headers);

  a = await talk(where, get('/stream?kb=20000') + get('/'), 2, 20000);
  ok(a[0].body.length === 20000 * 1024 && a[1].body === 'ok', 'a long chunked answer, then another', a.length);

  c = new Raw(where);
  c.send(get('/abort'));
  a = answers(await c.end());
  ok(c.ended && (c.failed || a.length === 0 || a[0].body === null), 'an aborted answer looks broken', [c.failed, a]);

  a = await talk(where, post('/early', 'x'.repeat(100000)) + get('/'), 2);
  ok(a[0].body === 'early' && a[1].body === 'ok', 'a body that nobody asked for is dropped', a);

  c = new Raw(where);
  c.send('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n');
  await c.until((t) => t.includes('100 Continue'));
  c.send('abc');
  a = answers(await c.until((t) => answers(t).length === 2));
  ok(a[0].status === 100 && a[1].body === 'abc', '100-continue', a);
  c.destroy();

  c = new Raw(where);
  c.send('POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n');
  a = answers(await c.end());
  ok(a.length === 1 && a[0].headers.connection === 'close', 'no 100 for a body nobody wants, and close', a);

  c = new Raw(where);
  c.send('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\nExpect: 100-continue\r\n\r\n');
  a = answers(await c.until((t) => answers(t).length > 0));
  ok(a[0].status === 413, 'a body known to be too large gets no 100', a);
  c.destroy();
}

// A client that sends its body for longer than 5 s after the answer, where the connection goes on and where it does not.
async function slowRests(where) {
  for (const [name, length, target, close] of [['a rest', 12 * MiB, '/early', undefined], ['a rest that is too long', 100 * MiB, '/echo', 'close']]) {
    const c = new Raw({ ...where, allowHalfOpen: true });
    c.send(`POST ${target} HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`);
    await c.open;
    for (let i = 0; i < 24 && !c.failed; i++) {
      c.socket.write(Buffer.alloc(MiB / 2, 'z'));
      await sleep(250);
    }
    const a = answers(c.text);
    ok(!c.failed && a.length === 1 && a[0].headers.connection === close, `${name} of a body that comes for 6 s loses no answer`, [a, c.failed]);
    if (!close) ok((await (c.send(get('/')), c.until((t) => answers(t).length === 2)), answers(c.text))[1].body === 'ok', 'and another request is served');
    c.destroy();
  }
}

async function bigBodies(where) {
  const block = Buffer.alloc(MiB, 'z');
  let c = new Raw(where);
  c.send('POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n');
  for (let i = 0; i < 100; i++)
    if (!c.socket.write(block)) await new Promise((r) => c.socket.once('drain', r));
  let a = answers(await c.until((t) => answers(t).length > 0));
  ok(a[0] && a[0].body === '104857600', '100 MiB streamed to a handler', a);
  c.destroy();

  for (const [name, head, lead, tail] of [
    ['length', 'Content-Length: 104857600', '', ''],
    ['chunked', 'Transfer-Encoding: chunked', '100000\r\n', '\r\n']]) {
    c = new Raw(where);
    c.send(`POST /echo HTTP/1.1\r\nHost: x\r\n${head}\r\n\r\n`);
    await c.open;
    for (let i = 0; i < 100 && !c.ended; i++) {
      c.socket.write(Buffer.concat([Buffer.from(lead), block, Buffer.from(tail)]));
      await sleep(1);
      if (answers(c.text).length) break;
    }
    a = answers(await c.until((t) => answers(t).length > 0));
    ok(a[0] && a[0].status === 413 && a[0].headers.connection === 'close', `100 MiB by ${name}: 413 is seen`, [a, c.failed]);
    c.destroy();
  }
}

const counter = async (where, what) => +new RegExp(what + '=(\\d+)').exec((await talk(where, get('/stats'), 1))[0].body)[1];

const untilCounter = (where, what, test) => eventually(async () => test(await counter(where, what)));

// Against a server with short timeouts and few connections (ECHO_FAST).
async function limits(where) {
  let c = new Raw(where);
  c.send('GET / HT');
  let a = answers(await c.end());
  ok(a[0] && a[0].status === 408, 'a slow head is 408', a);

  c = new Raw(where);
  c.send('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab');
  a = answers(await c.end());
  ok(a[0] && a[0].status === 408, 'a slow body is 408', a);

  for (const [name, target, want] of [['a body', '/echo', 408], ['one that was answered early', '/early', 200]]) {
    c = new Raw(where);
    c.send(`POST ${target} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n`);
    for (let i = 0; i < 200 && !c.ended; i++) { c.send('x'); await sleep(50); }
    a = answers(c.text);
    ok(c.ended && a.length === 1 && a[0].status === want, `${name} that comes byte by byte ends: ${want}`, a);
    c.destroy();
  }

  c = new Raw(where);
  c.send(get('/'));
  await c.until((t) => answers(t).length > 0);
  await c.end();
  ok(c.ended && answers(c.text).length === 1, 'an idle connection is closed without a word', c.text);

  let before = await counter(where, 'aborted');
  c = new Raw(where);
  c.send(get('/slow?ms=60000'));
  await sleep(50);
  c.destroy();
  ok(await untilCounter(where, 'aborted', (n) => n === before + 1), 'a client that leaves aborts its request');

  c = new Raw(where);
  c.send(post('/slow?ms=300', 'abc') + get('/'));
  c.socket.end();
  a = answers(await c.end()).filter((x) => x.status !== 100);
  ok(a.length === 2 && a[0].body === 'slow' && a[1].body === 'ok' && !c.failed,
    'one that only ends its side is answered, and what it had asked before that', a);

  before = await counter(where, 'aborted');
  c = new Raw(where);
  c.send('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab');
  await sleep(50);
  c.socket.end();
  a = answers(await c.end());
  ok(a.length === 0 && c.ended, 'not in the middle of its body', a);

  before = await counter(where, 'aborted');
  c = new Raw(where);
  c.socket.pause();
  c.send(get('/stream?kb=200000'));
  ok(await untilCounter(where, 'aborted', (n) => n === before + 1), 'a client that never reads is dropped');
  c.destroy();

  before = await counter(where, 'aborted');
  c = new Raw(where);
  c.send('POST /count HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX');
  a = answers(await c.end());
  ok(a[0].status === 400 && await untilCounter(where, 'aborted', (n) => n === before + 1),
    'a broken body is 400 and the handler hears of it', a);

  const crowd = [];
  for (let i = 0; i < 30; i++) crowd.push(new Raw(where).send(get('/slow?ms=1000')));
  const look = () => crowd.map((x) => statuses(x.text)[0]);
  await eventually(() => look().every((s) => s));
  const seen = look();
  ok(seen.filter((s) => s === 200).length === 20 && seen.filter((s) => s === 503).length === 10,
    'over max_connections: 503', seen);
  for (const x of crowd) x.destroy();
  await sleep(50);
  a = await talk(where, get('/'), 1);
  ok(a[0].status === 200, 'and room again afterwards', a);
}

async function outOfDescriptors() {
  const s = start('prlimit', ['--nofile=40', program, '127.0.0.1:0']);
  const where = { port: await s.ready, host: '127.0.0.1' };
  const crowd = [];
  for (let i = 0; i < 100; i++) crowd.push(new Raw(where).send(get('/slow?ms=200')));
  const served = () => crowd.filter((c) => statuses(c.text)[0] === 200).length;
  await eventually(() => served() > 10);
  await sleep(300);
  const seen = served();
  ok(seen > 10 && seen < 40, 'out of descriptors: some are served', seen);
  for (const c of crowd) c.destroy();
  await sleep(50);
  ok((await talk(where, get('/'), 1))[0].body === 'ok', 'and it recovers');
  s.child.kill('SIGTERM');
  ok(await s.exit === 0 && s.err.split('\n').length < 5, 'and does not fill the log', s.err);
}

async function drain() {
  const s = start(program, ['127.0.0.1:0']);
  const port = await s.ready;
  const idle = new Raw({ port });
  await idle.open;
  const busy = new Raw({ port }).send(get('/slow?ms=600'));
  await busy.open;
  await sleep(300);
  s.child.kill('SIGTERM');
  await idle.end();
  ok(idle.ended, 'draining closes idle connections');
  const a = answers(await busy.end());
  ok(a[0] && a[0].body === 'slow' && a[0].headers.connection === 'close', 'and finishes running requests', a);
  ok(await s.exit === 0, 'and ends', s.err);
}

async function unixSockets(dir) {
  const file = path.join(dir, 'socket');
  const s = start(program, ['unix:' + file]);
  await s.ready;
  ok((fs.statSync(file).mode & 0o777) === 0o600, 'a Unix socket is for its owner only');
  const a = await talk({ path: file }, get('/info'), 1);
  ok(/unix=1/.test(a[0].body), 'a Unix socket answers', a);
  const second = start(program, ['unix:' + file]);
  ok(await second.ready.catch((e) => /in use/.test(e.message)) === true, 'a socket somebody listens on is not taken');
  s.child.kill('SIGKILL');
  await s.exit;
  const third = start(program, ['unix:' + file]);
  ok(await third.ready === 0, 'a stale socket is replaced');
  third.child.kill('SIGTERM');
  fs.writeFileSync(file + '2', 'precious');
  const fourth = start(program, ['unix:' + file + '2']);
  ok(await fourth.ready.catch((e) => /not a socket/.test(e.message)) === true && fs.readFileSync(file + '2', 'utf8') === 'precious',
    'a file is not replaced');
}

async function addresses() {
  for (const [address, want] of [['localhost:0', true], ['[::1]:0', true], [':0', true], ['127.0.0.1:99999', false],
    ['::1:80', false], ['nonsense', false], ['unix:', false], ['unix:' + 'a'.repeat(200), false]]) {
    const s = start(program, [address]);
    const port = await s.ready.catch(() => null);
    ok((port !== null) === want, `address ${address.slice(0, 30)}: ${want ? 'works' : 'refused'}`, s.err);
    if (port && address === ':0') {
      for (const host of ['127.0.0.1', '::1'])
        ok((await talk({ port, host }, get('/'), 1))[0].body === 'ok', `:PORT answers on ${host}`);
    }
    s.child.kill('SIGTERM');
  }
}

async function overTls(dir) {
  const cert = path.join(dir, 'cert.pem'), key = path.join(dir, 'key.pem');
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1',
    '-subj', '/CN=localhost', '-keyout', key, '-out', cert], { stdio: 'ignore' });
  const s = start(program, ['127.0.0.1:0', cert, key]);
  const port = await s.ready;
  const where = { port, host: '127.0.0.1', tls: true };
  let a = await talk(where, post('/echo', 'secret') + get('/'), 2);
  ok(a[0].body === 'secret' && a[1].body === 'ok', 'TLS: keep-alive', a);
  const body = 'b'.repeat(3 * MiB);
  a = await talk(where, post('/echo', body), 1);
  ok(a[0] && a[0].body === body, 'TLS: 3 MiB echo', a[0] && a[0].status);
  a = await talk(where, get('/stream?kb=20000') + get('/'), 2, 20000);
  ok(a[0].body.length === 20000 * 1024 && a[1].body === 'ok', 'TLS: a long answer');
  let many = '';
  for (let i = 0; i < 2000; i++) many += get(`/info?q=${i}`);
  a = await talk(where, many, 2000);
  ok(a.length === 2000, 'TLS: pipelining', a.length);
  let c = new Raw(where);
  c.send('GET / HTTP/1.1\nx\n\n');
  a = answers(await c.end());
  ok(a[0] && a[0].status === 400 && c.ended && !c.failed, 'TLS: a refusal is seen', [a, c.failed]);
  const w = await new Ws(where).hello();
  w.send(frame(1, 'over TLS'));
  const f = await w.count(1);
  ok(f[0] && f[0].data.toString() === 'over TLS', 'TLS: WebSocket', f);
  w.destroy();
  c = new Raw({ port });
  c.send(get('/'));
  await c.end();
  ok(c.ended && !/HTTP/.test(c.text), 'TLS: a plain client is closed');
  ok((await talk(where, get('/'), 1))[0].body === 'ok', 'TLS: and others go on');
  s.child.kill('SIGTERM');
  ok(await s.exit === 0, 'TLS: ends cleanly', s.err);
}

(async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'http-server-'));
  const plain = start(program, ['127.0.0.1:0']);
  const where = { port: await plain.ready, host: '127.0.0.1' };
  await messages(where);
  await targets(where);
  await refusals(where);
  await connections(where);
  await bigBodies(where);
  await slowRests(where);
  plain.child.kill('SIGTERM');
  ok(await plain.exit === 0, 'the server ends cleanly', plain.err);
  const fast = start(program, ['127.0.0.1:0'], { ECHO_FAST: '1' });
  await limits({ port: await fast.ready, host: '127.0.0.1' });
  fast.child.kill('SIGTERM');
  ok(await fast.exit === 0, 'the server with limits ends cleanly', fast.err);
  await outOfDescriptors();
  await drain();
  await unixSockets(dir);
  await addresses();
  await overTls(dir);
  fs.rmSync(dir, { recursive: true });
  done();
})();
