// SPDX-License-Identifier: Apache-2.0
// The web as the URL tools' tests need it, on loopback. Prints its ports as one JSON line.
// Usage: node toolnet-server.js KEY.pem CERT.pem
'use strict';
const fs = require('fs');
const http = require('http');
const https = require('https');
const zlib = require('zlib');

let secretHits = 0;
const ports = {};

const ddg = {
    Heading: 'Answer', AbstractText: 'The abstract.', AbstractURL: 'https://en.example/answer',
    AbstractSource: 'Encyclopedia', Results: [{FirstURL: 'https://r.example/', Text: 'Official - site'}],
    RelatedTopics: [
        {FirstURL: 'https://t.example/1', Text: 'Topic one - about one'},
        {Name: 'Group', Topics: [{FirstURL: 'https://t.example/2', Text: 'Topic two - about two'},
                                 {FirstURL: 'https://t.example/1', Text: 'Twice'}]},
        {FirstURL: 7, Text: null}, 'odd', null],
};

const page = '<!doctype html><html><head><title>T</title><script>var x = "no";</script></head><body>' +
    '<h1>Title</h1><p>Some <b>bold</b> text and a <a href="/next">link</a>.</p>' +
    '<ul><li>one</li><li>two</li></ul></body></html>';

function send(res, status, type, body, more) {
    res.writeHead(status, Object.assign({'content-type': type}, more));
    res.end(body);
}

function redirect(res, status, to) {
    res.writeHead(status, {location: to});
    res.end('moved');
}

function echo(req, res) {
    const parts = [];
    req.on('data', d => parts.push(d));
    req.on('end', () => {
        const body = Buffer.concat(parts);
        send(res, 200, 'application/json',
             JSON.stringify({method: req.method, headers: req.headers, size: body.length,
                             body: body.length < 1000 ? body.toString() : ''}));
    });
}

const bomb = zlib.gzipSync(Buffer.alloc(64 << 20, 'A')); // not while a client waits

const routes = {
    '/hello': (q, r) => send(r, 200, 'text/plain; charset=utf-8', 'hello, wörld\n', {'x-twice': ['a', 'b']}),
    '/echo': echo,
    '/missing': (q, r) => send(r, 404, 'text/html', '<p>nothing here</p>'),
    '/empty': (q, r) => { r.writeHead(204); r.end(); },
    '/page': (q, r) => send(r, 200, 'text/html; charset=utf-8', page),
    '/untyped': (q, r) => { r.writeHead(200); r.end('\n <HTML><body><p>typed?</p>'); },
    '/latin1': (q, r) => send(r, 200, 'text/html; charset=ISO-8859-1', Buffer.from('<p>caf\xe9 \x93q\x94</p>', 'latin1')),
    '/latin1-meta': (q, r) => send(r, 200, 'text/html', Buffer.from('<meta charset="iso-8859-1"><p>caf\xe9</p>', 'latin1')),
    '/latin1-text': (q, r) => send(r, 200, 'text/plain; charset=iso-8859-1', Buffer.from('caf\xe9', 'latin1')),
    '/binary': (q, r) => send(r, 200, 'application/octet-stream', Buffer.from([0, 1, 2, 255, 254])),
    '/controls': (q, r) => send(r, 200, 'text/plain', 'a\u0000b\u001bc\td'),
    '/gzip': (q, r) => send(r, 200, 'text/plain', zlib.gzipSync('squeezed'), {'content-encoding': 'gzip'}),
    '/bomb': (q, r) => send(r, 200, 'text/plain', bomb, {'content-encoding': 'gzip'}),
    '/big': (q, r) => send(r, 200, 'text/plain', Buffer.alloc(6 << 20, 'x')),
    '/exact': (q, r) => send(r, 200, 'text/plain', Buffer.alloc(5 << 20, 'x')),
    '/endless': (q, r) => {
        r.writeHead(200, {'content-type': 'text/plain'});
        const block = Buffer.alloc(65536, 'e');
        const more = () => { while (!r.destroyed && r.write(block)); };
        r.on('drain', more);
        r.on('error', () => {});
        more();
    },
    '/slow': () => {},
    '/drip': (q, r) => {
        r.writeHead(200, {'content-type': 'text/plain'});
        const t = setInterval(() => r.write('.'), 100);
        r.on('close', () => clearInterval(t));
    },
    '/cut': (q, r) => {
        r.writeHead(200, {'content-length': '1000'});
        r.write('only this');
        setTimeout(() => r.destroy(), 50);
    },
    '/headers': (q, r) => {
        for (let i = 0; i < 400; i++)
            r.setHeader('x-' + i, 'v');
        r.end('x');
    },
    '/to-hello': (q, r) => redirect(r, 302, '/hello'),
    '/to-echo-303': (q, r) => redirect(r, 303, '/echo'),
    '/to-echo-307': (q, r) => redirect(r, 307, '/echo'),
    '/to-other': (q, r) => redirect(r, 302, `http://127.0.0.1:${ports.other}/echo`),
    '/to-secret': (q, r) => redirect(r, 302, `http://127.0.0.1:${ports.secret}/`),
    '/to-metadata': (q, r) => redirect(r, 302, 'http://169.254.169.254/latest/meta-data/'),
    '/to-file': (q, r) => redirect(r, 302, 'file:///etc/passwd'),
    '/to-gopher': (q, r) => redirect(r, 302, 'gopher://127.0.0.1:6379/_x'),
    '/loop': (q, r) => redirect(r, 302, '/loop'),
    '/ddg': (q, r) => send(r, 200, 'application/x-javascript', JSON.stringify(Object.assign({echo: q.url}, ddg))),
    '/ddg-empty': (q, r) => send(r, 200, 'application/x-javascript', JSON.stringify({RelatedTopics: []})),
    '/secret-hits': (q, r) => send(r, 200, 'text/plain', String(secretHits)),
};

function serve(req, res) {
    const route = routes[req.url.split('?')[0]];
    route ? route(req, res) : send(res, 404, 'text/plain', 'no such route');
}

function listen(name, server, host) {
    return new Promise(done => server.listen(0, host, () => {
        ports[name] = server.address().port;
        done();
    }));
}

(async () => {
    const tls = {key: fs.readFileSync(process.argv[2]), cert: fs.readFileSync(process.argv[3])};
    const secret = http.createServer((q, r) => r.end('secret'));
    secret.on('connection', () => secretHits++);
    await listen('main', http.createServer(serve), '127.0.0.1');
    await listen('other', http.createServer(serve), '127.0.0.1');
    await listen('tls', https.createServer(tls, serve), '127.0.0.1');
    await listen('secret', secret, '127.0.0.1');
    console.log(JSON.stringify(ports));
})();
process.stdin.on('end', () => process.exit(0)).resume();
