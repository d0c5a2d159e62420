// SPDX-License-Identifier: Apache-2.0
// fetch() through the proxy, for a Node that does not read HTTPS_PROXY itself (before 24.5, and 22.21
// of the line before). NODE_OPTIONS makes every node in a sandbox with a network load this file; it
// costs next to nothing until fetch() is called for the first time. Every connection is a tunnel:
// what happens inside it, TLS included, is Node's own.
'use strict';

const [major, minor] = process.versions.node.split('.').map(Number);
const knows = major > 24 || (major === 24 && minor >= 5) || (major === 22 && minor >= 21);
const plainFetch = globalThis.fetch;
const dispatcher = Symbol.for('undici.globalDispatcher.1');

function wrap(options, socket) {
    const name = options.servername || options.hostname;
    return options.protocol === 'https:'
        ? require('tls').connect({socket, servername: name, ALPNProtocols: ['http/1.1']})
        : socket;
}

// Tells of the socket once it can be used.
function announce(options, socket, done) {
    const event = options.protocol === 'https:' ? 'secureConnect' : 'connect';
    socket.once('error', done).once(event, () => {
        socket.off('error', done);
        done(null, socket);
    });
}

function connectDirectly(options, port, done) {
    const socket = require('net').connect(port, options.hostname);
    announce(options, wrap(options, socket), done);
}

function connectThrough(proxy, options, port, done) {
    const host = /^[^[].*:/.test(options.hostname) ? `[${options.hostname}]` : options.hostname;
    const to = `${host}:${port}`;
    const socket = require('net').connect(proxy.port, proxy.hostname);
    let head = '';
    const fail = (error) => {
        socket.destroy();
        done(error, null);
    };
    const onEnd = () => fail(new Error(`the proxy ended the connection to ${to}`));
    const onReadable = () => {
        // Byte by byte, so that nothing behind the head is taken.
        for (let byte; !head.endsWith('\r\n\r\n'); head += byte.toString('latin1'))
            if ((byte = socket.read(1)) === null)
                return;
        socket.off('readable', onReadable).off('error', fail).off('end', onEnd);
        const first = head.split('\r\n')[0];
        if (!/^HTTP\/1\.[01] 200 /.test(first))
            fail(new Error(`the proxy refused ${to}: ${first}`));
        else if (options.protocol === 'https:')
            announce(options, wrap(options, socket), done);
        else
            done(null, socket);
    };
    socket.on('readable', onReadable).once('error', fail).once('end', onEnd);
    socket.write(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n\r\n`);
}

function connect(options, done) {
    const port = options.port || (options.protocol === 'https:' ? 443 : 80);
    if ((process.env.NO_PROXY || '').split(',').includes(options.hostname))
        connectDirectly(options, port, done);
    else
        connectThrough(new URL(process.env.HTTPS_PROXY), options, port, done);
}

if (!knows && plainFetch && process.env.HTTPS_PROXY)
    globalThis.fetch = function fetch(...args) {
        globalThis.fetch = plainFetch;
        plainFetch('data:,').catch(() => {}); // Node has no dispatcher before the first call
        const Agent = globalThis[dispatcher].constructor;
        globalThis[dispatcher] = new Agent({connect});
        return plainFetch(...args);
    };
