import { test } from 'tap';
import { parseRights, RIGHTS } from '../../src/domain/rights.ts';

test('rights are read from a list, in one order and once', (t) => {
  t.strictSame(parseRights('users.read'), ['users.read']);
  t.strictSame(parseRights(' users.write, introspect ,users.write'), ['introspect', 'users.write']);
  t.strictSame(parseRights([...RIGHTS].reverse().join(',')), RIGHTS);
  t.end();
});

test('an unknown or missing right is named', (t) => {
  for (const [list, message] of [
    ['introspekt', /no right "introspekt"; the rights are introspect, revoke/],
    ['introspect,USERS.READ', /no right "USERS.READ"/],
    ['users', /no right "users"/],
    ['introspect revoke', /no right "introspect revoke"/],
    ['toString', /no right "toString"/],
    ['a\u001b[31m', /no right "a\\u001b\[31m"/],
    ['', /a right is missing/],
    ['introspect,', /a right is missing/],
  ] as const)
    t.match(parseRights(list), message);
  t.end();
});
