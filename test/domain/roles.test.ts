import { test } from 'tap';
import { parseRoles } from '../../src/domain/roles.ts';

test('roles are at most 32 different strings of a-z, 0-9, :, _ and -', (t) => {
  const many = Array.from({ length: 33 }, (_, index) => `role-${index}`);
  for (const roles of [[], ['a'], ['orders:read_all-2'], ['x'.repeat(64)], many.slice(1)])
    t.strictSame(parseRoles(roles), { ok: true, value: roles });
  for (const roles of [
    many,
    ['x'.repeat(65)],
    [''],
    ['A'],
    ['a b'],
    ['a,b'],
    ['a\n'],
    ['ä'],
    [1],
    [null],
    ['a', 'a'],
  ])
    t.equal(parseRoles(roles).ok, false, JSON.stringify(roles));
  for (const roles of [null, 'a', {}, 1, true])
    t.match(parseRoles(roles), { ok: false, code: 'type' }, JSON.stringify(roles));
  t.match(parseRoles(many), { code: 'too_many', params: { max: 32 } });
  t.match(parseRoles(['A']), { code: 'format' });
  t.match(parseRoles(['a', 'a']), { code: 'repeated' });
  t.end();
});
