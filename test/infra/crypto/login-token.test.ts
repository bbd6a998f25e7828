import { test } from 'tap';
import { followLoginTokens } from '../../../src/infra/crypto/login-token.ts';
import { rotatingSecrets } from '../../support/rotating-secrets.ts';

const PROOF = { userId: 2 ** 53 - 1, passwordVersion: 3, enabledAt: 0, issuedAt: 1_795_000_000_123 };

function loginTokens(...secrets: number[]) {
  const { keyRing, rotate } = rotatingSecrets(...secrets);
  return { ...followLoginTokens(keyRing), rotate };
}

test('a token says what was proved, to the last digit', (t) => {
  const tokens = loginTokens(1);
  t.strictSame(tokens.read(tokens.issue(PROOF)), PROOF);
  t.end();
});

test('it is good while its secret is loaded, and the newest one signs', async (t) => {
  const tokens = loginTokens(1);
  const before = tokens.issue(PROOF);
  await tokens.rotate(2, 1);
  t.strictSame(tokens.read(before), PROOF);
  t.strictSame(loginTokens(2).read(tokens.issue(PROOF)), PROOF);
  await tokens.rotate(2);
  t.equal(tokens.read(before), null);
});
