import Type from 'typebox';
import { test } from 'tap';
import { asShown } from '../../../src/http/openapi/shown.ts';
import { integerText } from '../../../src/http/schemas.ts';

test('the reference shows keywords that no validator sees', (t) => {
  const schema = Type.Object({
    name: Type.String({ description: 'A name', shown: { minLength: 1, maxLength: 64 } }),
    roles: Type.Array(Type.String({ shown: { pattern: '^a$' } }), { shown: { maxItems: 2 } }),
  });
  t.match(asShown(schema), {
    type: 'object',
    properties: {
      name: { type: 'string', description: 'A name', minLength: 1, maxLength: 64 },
      roles: { type: 'array', maxItems: 2, items: { type: 'string', pattern: '^a$' } },
    },
  });
  t.notMatch(JSON.stringify(asShown(schema)), 'shown');
  t.end();
});

test('undefined hides a keyword', (t) => {
  t.strictSame(asShown({ type: 'string', format: 'unsafe', shown: { format: undefined } }), {
    type: 'string',
  });
  t.end();
});

test('an integer in a path is validated as text, and shown as an integer', (t) => {
  const id = integerText('^[1-9]$', { description: 'An id', minimum: 1, maximum: 9, example: 7 });
  t.match(id, { type: 'string', pattern: '^[1-9]$' });
  t.strictSame(asShown(id), { type: 'integer', description: 'An id', minimum: 1, maximum: 9, examples: [7] });
  t.end();
});

test('everything else stays as it is', (t) => {
  const schema = {
    type: 'object',
    required: ['a'],
    properties: { a: { const: null }, b: { enum: [1, 'x', false] } },
  };
  t.strictSame(asShown(schema), schema);
  t.end();
});
