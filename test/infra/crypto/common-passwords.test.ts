import { test } from 'tap';
import { loadCommonPasswords } from '../../../src/infra/crypto/common-passwords.ts';

test('the commonest passwords are known, and a sentence is not', (t) => {
  const isCommon = loadCommonPasswords();
  for (const password of ['password', '12345678', 'qwertyuiop', 'iloveyou'])
    t.equal(isCommon(password), true, password);
  t.equal(isCommon('correct horse battery staple'), false);
  t.end();
});
