import { test } from 'tap';
import { followLoginTokens } from '../../../src/infra/crypto/login-token.ts';
import { followLoginChallenges } from '../../../src/infra/crypto/passkey-challenge.ts';
import { rotatingSecrets } from '../../support/rotating-secrets.ts';

const AT = 1_795_000_000_123;

function challenges(...secrets: number[]) {
  const { keyRing, rotate } = rotatingSecrets(...secrets);
  return { ...followLoginChallenges(keyRing), rotate };
}

test('a challenge says when it was issued, and each is another one', (t) => {
  const { issue, read } = challenges(1);
  const [one, other] = [issue(AT), issue(AT)];
  t.not(one, other);
  t.match(read(one), { issuedAt: AT });
  t.equal(read(one)?.nonce.length, 24);
  t.end();
});

test('what is noted of a later one is greater, byte by byte', (t) => {
  const { issue, read } = challenges(1);
  const nonceAt = (at: number) => Buffer.from(read(issue(at))?.nonce ?? []);
  for (const later of [1, 255, 256, 65_536, 2 ** 32])
    t.equal(Buffer.compare(nonceAt(AT + later), nonceAt(AT)), 1, String(later));
  t.end();
});

test('it is good while its secret is loaded, and the newest one signs', async (t) => {
  const { issue, read, rotate } = challenges(1);
  const before = issue(AT);
  await rotate(2, 1);
  t.match(read(before), { issuedAt: AT });
  t.match(challenges(2).read(issue(AT)), { issuedAt: AT });
  await rotate(2);
  t.equal(read(before), null);
});

test('it has one spelling, and no other token of ours is one', (t) => {
  const { keyRing } = rotatingSecrets(1);
  const { issue, read } = followLoginChallenges(keyRing);
  const challenge = issue(AT);
  const proof = { userId: 7, passwordVersion: 3, enabledAt: 0, issuedAt: AT };
  const token = followLoginTokens(keyRing).issue(proof);
  for (const other of [
    '',
    `${challenge}=`,
    ` ${challenge}`,
    `${challenge}.`,
    challenge.slice(1),
    challenge.replaceAll('_', '/').replaceAll('-', '+').replace(/^/, '+'),
    token,
    token.slice(4),
    challenges(2).issue(AT),
  ])
    t.equal(read(other), null, other);
  t.end();
});
