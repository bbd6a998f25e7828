import { test } from 'tap';
import { exampleOf } from '../../../src/http/openapi/example.ts';

test('the error names a property without an example', (t) => {
  const schema = { properties: { user: { properties: { name: { type: 'string', examples: [] } } } } };
  t.throws(() => exampleOf(schema, 'signUp'), /^signUp\/user\/name has no example$/);
  t.throws(() => exampleOf({ type: 'array', items: { type: 'string' } }), /has no example/);
  t.end();
});
