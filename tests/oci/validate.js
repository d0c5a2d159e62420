// SPDX-License-Identifier: Apache-2.0
// Validates config.json files, one a line on stdin, against the OCI runtime specification's schema.
// usage: node validate.js NODE_MODULES < LINES        prints TAP
'use strict';
const fs = require('fs');
const path = require('path');
const modules = process.argv[2];
const Ajv = require(path.join(modules, 'ajv'));

const schemas = JSON.parse(fs.readFileSync(path.join(__dirname, '../data/oci-runtime-spec.json')));
const ajv = new Ajv({schemaId: 'id', meta: false, unknownFormats: 'ignore', allErrors: true, logger: false});
ajv.addMetaSchema(require(path.join(modules, 'ajv/lib/refs/json-schema-draft-04.json')));
for (const [name, schema] of Object.entries(schemas))
  if (name !== 'config-schema.json') ajv.addSchema(Object.assign({}, schema, {id: name}));
const validate = ajv.compile(Object.assign({}, schemas['config-schema.json'], {id: 'config-schema.json'}));

let n = 0;
function ok(good, what, errors) {
  console.log(`${good ? 'ok' : 'not ok'} ${++n} - ${what}`);
  if (!good && errors) for (const e of errors) console.log(`# ${e.dataPath} ${e.message}`);
}

const lines = fs.readFileSync(0, 'utf8').trim().split('\n');
for (const [i, line] of lines.entries())
  ok(validate(JSON.parse(line)), `config ${i + 1} is valid`, validate.errors);

// The validator must be able to say no.
const broken = [
  c => { c.process.cwd = 7; },
  c => { delete c.ociVersion; },
  c => { c.linux.namespaces[0].type = 'planet'; },
  c => { c.linux.seccomp.defaultAction = 'SCMP_ACT_MAYBE'; },
  c => { c.linux.uidMappings[0].hostID = -1; },
];
for (const [i, damage] of broken.entries()) {
  const c = JSON.parse(lines[0]);
  damage(c);
  ok(!validate(c), `damage ${i + 1} is found`);
}
console.log(`1..${n}`);
