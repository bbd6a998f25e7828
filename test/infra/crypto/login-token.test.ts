import { test } from 'tap';
import type { KeyRing, KeySet } from '../../../src/domain/access-tokens/ports.ts';
import { followLoginTokens } from '../../../src/infra/crypto/login-token.ts';

const PROOF = { userId: 2 ** 53 - 1, passwordVersion: 3, enabledAt: 0, issuedAt: 1_795_000_000_123 };

/** Login tokens under secrets that the test changes, the newest first. */
function loginTokens(...secrets: number[]) {
  const keysOf = (fills: number[]): KeySet => ({
    signing: [],
    refresh: fills.map((fill) => ({ kid: String(fill), secret: Buffer.alloc(32, fill) })),
  });
  let changed: Parameters<KeyRing['onChange']>[0] = () => Promise.resolve();
  const tokens = followLoginTokens({
    current: () => keysOf(secrets),
    onChange: (listener) => {
      changed = listener;
    },
    reload: () => Promise.resolve(keysOf(secrets)),
    isIncomplete: () => false,
    isInUse: () => Promise.resolve(false),
  });
  return { ...tokens, rotate: (...fills: number[]) => changed(keysOf(fills)) };
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
