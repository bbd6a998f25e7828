import { test } from 'tap';
import { fieldsOf, namedFields, parseFields } from '../../../src/domain/users/account-fields.ts';
import { makeNewNames } from '../../../src/domain/users/new-names.ts';

const newNames = makeNewNames(['admin']);

test('fields are read by the table, and what it does not read stays', (t) => {
  const given = {
    username: ' ADA',
    email: ' ADA@example.com ',
    password: ' as sent ',
    externalId: null,
    roles: ['a'],
    disabled: true,
    locale: 'PT-br',
  };
  t.strictSame(parseFields(given, newNames), {
    values: { ...given, username: 'ada', email: 'ADA@example.com', locale: 'pt-BR' },
    errors: [],
  });
  t.strictSame(parseFields({ locale: null }, newNames), { values: { locale: null }, errors: [] });
  t.strictSame(parseFields({}, newNames), { values: {}, errors: [] });
  t.end();
});

test('each field that is refused is named as in JSON, in the order of the table, without its value', (t) => {
  const { errors } = parseFields(
    {
      locale: 'en_SECRET',
      externalId: 'a secret',
      roles: ['Secret'],
      email: 'secret',
      username: 'admin',
      name: ' ',
    },
    newNames,
  );
  t.match(errors, [
    { path: '/username', code: 'reserved' },
    { path: '/name', code: 'blank' },
    { path: '/email', code: 'format' },
    { path: '/external_id', code: 'not_allowed_character' },
    { path: '/roles', code: 'format' },
    { path: '/locale', code: 'format' },
  ]);
  t.notMatch(JSON.stringify(errors), /secret/i);
  t.end();
});

test('a body gets the names of the table, and nothing else of it is taken', (t) => {
  const body = {
    username: 'ada',
    email_verified: false,
    external_id: null,
    emailVerified: true,
    version: 7,
    password_hash: undefined,
  };
  t.strictSame(namedFields(body) as object, { username: 'ada', externalId: null, emailVerified: false });
  t.end();
});

test('what is read from a file and not given by a service stays so', (t) => {
  for (const field of ['hash', 'createdAt', 'totpSecret'] as const) {
    t.ok(fieldsOf('import').includes(field));
    t.notOk([...fieldsOf('create'), ...fieldsOf('change')].includes(field as never));
  }
  t.notOk(fieldsOf('change').includes('password' as never), 'only a reset or its owner changes a password');
  t.notOk(fieldsOf('export').includes('totpSecret' as never));
  t.end();
});
