import { test } from 'tap';
import { hoistTitled } from '../../../src/http/openapi/document.ts';
import type { JsonObject } from '../../../src/http/openapi/json.ts';

const USER = { type: 'object', title: 'User', properties: { name: { type: 'string' } } };

test('schemas with a title become components, nested ones too', (t) => {
  const components: JsonObject = {};
  const pair = { type: 'object', title: 'Pair', properties: { user: USER } };
  const hoisted = hoistTitled({ one: { schema: pair }, two: [USER] }, components);
  t.strictSame(hoisted, {
    one: { schema: { $ref: '#/components/schemas/Pair' } },
    two: [{ $ref: '#/components/schemas/User' }],
  });
  t.strictSame(components, {
    User: USER,
    Pair: { ...pair, properties: { user: { $ref: '#/components/schemas/User' } } },
  });
  t.end();
});

test('a title outside of a schema makes no component', (t) => {
  const components: JsonObject = {};
  const document = {
    example: { title: 'Invalid token', type: 'urn:x' },
    examples: [{ title: 'Invalid token', type: 'urn:x' }],
    info: { title: 'Latchkey' },
    properties: { title: { type: 'string' }, type: { type: 'string' } },
  };
  t.strictSame(hoistTitled(document, components), document);
  t.strictSame(components, {});
  t.end();
});

test('one title for two schemas is refused', (t) => {
  const other = { ...USER, properties: {} };
  t.throws(() => hoistTitled({ one: USER, two: other }, {}), /two schemas have the title User/);
  t.end();
});
