import { test } from 'tap';
import { hoistTitled } from '../../../src/http/openapi/document.ts';

const USER = { type: 'object', title: 'User', properties: { name: { type: 'string' } } };

test('one title for two schemas is refused', (t) => {
  const other = { ...USER, properties: {} };
  t.throws(() => hoistTitled({ one: USER, two: other }, {}), /two schemas have the title User/);
  t.end();
});
