import { test } from 'tap';
import { exampleOf } from '../../../src/http/openapi/example.ts';

test('the example of a body consists of its properties’ first examples', (t) => {
  const schema = {
    properties: {
      id: { type: 'integer', examples: [7, 8] },
      kind: { const: 'llt' },
      used: { anyOf: [{ type: 'string', examples: ['today'] }, { type: 'null' }] },
      tokens: { type: 'array', items: { properties: { name: { examples: ['Kitchen tablet'] } } } },
      never: { examples: [null] },
    },
  };
  t.strictSame(exampleOf(schema), {
    id: 7,
    kind: 'llt',
    used: 'today',
    tokens: [{ name: 'Kitchen tablet' }],
    never: null,
  });
  t.end();
});

test('the error names a property without an example', (t) => {
  const schema = { properties: { user: { properties: { name: { type: 'string', examples: [] } } } } };
  t.throws(() => exampleOf(schema, 'signUp'), /^signUp\/user\/name has no example$/);
  t.throws(() => exampleOf({ type: 'array', items: { type: 'string' } }), /has no example/);
  t.end();
});
