import { test } from 'tap';
import { judgeNames } from '../../src/doctor/names.ts';

test('accounts without a skeleton, and accounts that look like an older one', (t) => {
  t.match(judgeNames({ missing: 0, colliding: [] }), { check: 'usernames', state: 'ok' });
  t.match(judgeNames({ missing: 2, colliding: [7, 9] }), {
    state: 'warn',
    found: /^2 accounts .*: ids 7, 9$/,
    todo: /disable/,
  });
  t.match(judgeNames({ missing: 5000, colliding: [7] }), {
    state: 'warn',
    found: /^5000 accounts .*; ids 7 look/,
    todo: /latchkey user skeletons/,
  });
  t.notMatch(judgeNames({ missing: 5000, colliding: [] }).found, /ids/);
  t.end();
});
