// SPDX-License-Identifier: Apache-2.0
// usage: node http-corpus.js HTTP-ECHO | HOST:PORT
// Sends each request of http-corpus.json on a connection of its own and compares the statuses that
// come back; an empty list means that the server rightly waits for more. After a refusal nothing else
// on that connection may be answered. Bytes are written as the Latin-1 characters of a string. TAP.
'use strict';
const path = require('path');
const { Raw, answers, start, sleep, ok, done } = require('./net-client.js');
const cases = require(path.join(__dirname, 'http-corpus.json'));

(async () => {
  const target = process.argv[2];
  const address = /^(.*):(\d+)$/.exec(target);
  const server = address ? null : start(target, ['127.0.0.1:0']);
  const where = address ? { host: address[1], port: +address[2] } : { host: '127.0.0.1', port: await server.ready };
  for (const c of cases) {
    const raw = new Raw(where).send(c.bytes);
    const head = c.bytes.startsWith('HEAD');
    await raw.until((t) => c.answers.length && answers(t, head).length >= c.answers.length, 2000 * Math.sign(c.answers.length) + 30);
    await sleep(5);
    const got = answers(raw.text, head).map((a) => a.status);
    ok(JSON.stringify(got) === JSON.stringify(c.answers), `${c.name}: ${c.answers.join(' ') || 'waits'}`, [c.bytes, raw.text]);
    raw.destroy();
  }
  if (server) {
    server.child.kill('SIGTERM');
    ok(await server.exit === 0, 'the server ends cleanly', server.err);
  }
  done();
})();
