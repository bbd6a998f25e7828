import { test } from 'tap';
import { judgePasskeys } from '../../src/doctor/passkeys.ts';

test('passkeys that cannot be used are counted, with the reason', (t) => {
  t.match(judgePasskeys(null, { all: 0, foreign: 0 }), { state: 'ok', found: /^off/ });
  t.match(judgePasskeys('example.com', { all: 3, foreign: 0 }), {
    state: 'ok',
    found: '3 for example.com',
  });
  t.match(judgePasskeys('example.com', { all: 3, foreign: 2 }), {
    state: 'warn',
    found: '2 of 3 cannot be used, because they are of another RP ID than example.com',
  });
  t.match(judgePasskeys(null, { all: 3, foreign: 3 }), {
    state: 'warn',
    found: '3 of 3 cannot be used, because passkeys are off',
  });
  t.end();
});
