import { readFileSync } from 'node:fs';
import { test } from 'tap';
import type { Description } from '../../src/config/field-kinds.ts';
import { FIELD_GROUPS, FIELDS } from '../../src/config/fields.ts';
import { configurationDocument } from '../support/configuration-document.ts';

test('docs/configuration.md equals the output of npm run docs', async (t) => {
  t.equal(readFileSync('docs/configuration.md', 'utf8'), await configurationDocument());
});

test('docs/upgrading.md says of each variable that waits for the last replica when to set it', (t) => {
  const [, after = ''] = readFileSync('docs/upgrading.md', 'utf8').split('#### After');
  const [steps = ''] = after.split('#### Going back');
  for (const [name, { waits }] of Object.entries<Description>(FIELDS)) if (waits) t.match(steps, `\`${name}`);
  t.end();
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

/** Variables that the chart or the image sets. Headers hold a secret, so they belong into `extraEnv`, from a Secret. */
const NOT_OF_CONFIG =
  /^(NODE_ENV|PORT|OPS_PORT|DATA_DIR|DATABASE_(URL|CA)|REDIS_(URL|CA|MODE|NODES|SENTINEL_\w+)|SIGNING_KEYS_DIR|REFRESH_TOKEN_SECRET|FACTOR_KEYS|\w+_HEADERS)$/;

test('`config` of the chart takes every variable that the chart does not set', (t) => {
  const schema = JSON.parse(readFileSync('charts/latchkey/values.schema.json', 'utf8')) as {
    properties: { config: { properties: object; patternProperties: object } };
  };
  const { properties, patternProperties } = schema.properties.config;
  t.strictSame(
    Object.keys(properties).sort(),
    Object.entries<Description>(FIELDS)
      .filter(([name, { refusedInProduction }]) => !NOT_OF_CONFIG.test(name) && !refusedInProduction)
      .map(([name]) => name)
      .sort(),
  );
  t.strictSame(Object.keys(patternProperties), ['^OTEL_'], 'the SDK of OpenTelemetry reads more');
  t.end();
});
