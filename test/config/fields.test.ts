import { readFileSync } from 'node:fs';
import { test } from 'tap';
import { FIELD_GROUPS, FIELDS } from '../../src/config/fields.ts';
import { configurationDocument } from '../support/configuration-document.ts';

test('docs/configuration.md equals the output of npm run docs', async (t) => {
  t.equal(readFileSync('docs/configuration.md', 'utf8'), await configurationDocument());
});

test('every variable belongs to a group, which docs/configuration.md lists', (t) => {
  t.strictSame(Object.values(FIELD_GROUPS).flatMap(Object.keys), Object.keys(FIELDS));
  t.end();
});

test('each documented default parses to the value of an unset variable', (t) => {
  // The OpenTelemetry SDK sets the defaults of protocol and endpoint.
  const inWords = /^none$| |^http/;
  for (const [name, { schema, defaultText }] of Object.entries(FIELDS)) {
    if (inWords.test(defaultText)) continue;
    t.strictSame(schema.parse(undefined), schema.parse(defaultText), `${name} is ${defaultText}`);
  }
  t.end();
});
