import { test } from 'tap';
import { claimsRefusal } from '../../../src/domain/services/assertion.ts';

const NOW = 1_795_000_000;
const AUDIENCE = 'https://auth.example.com';
const CLAIMS = { iss: 'https://issuer.example.com', sub: 'orders', aud: [AUDIENCE], exp: NOW + 600 };

function refusalOf(claims: object) {
  const present = JSON.parse(JSON.stringify({ ...CLAIMS, ...claims })) as Record<string, unknown>;
  return claimsRefusal(present, { audience: AUDIENCE, now: NOW * 1000 });
}

test('good claims', (t) => {
  for (const claims of [
    {},
    { aud: AUDIENCE },
    { iat: NOW - 1e6, nbf: NOW - 1e6 },
    { iat: NOW + 30, nbf: NOW + 29.5 },
    { exp: NOW - 29 },
    { exp: NOW + 86_430 },
    { typ: 'anything', jti: 7 },
  ])
    t.equal(refusalOf(claims), null, JSON.stringify(claims));
  t.end();
});

const REFUSED: Record<string, object[]> = {
  malformed: [
    ...[undefined, '', 7, null].flatMap((value) => [{ iss: value }, { sub: value }]),
    ...[undefined, null, String(NOW + 600)].map((exp) => ({ exp })),
    ...[null, '0', [NOW]].flatMap((time) => [{ iat: time }, { nbf: time }]),
  ],
  audience: [
    undefined,
    '',
    'https://other.example.com',
    `${AUDIENCE}/`,
    [],
    [AUDIENCE, AUDIENCE],
    [AUDIENCE, 'x'],
    [[AUDIENCE]],
    { 0: AUDIENCE, length: 1 },
  ].map((aud) => ({ aud })),
  expired: [{ exp: NOW - 30 }, { exp: -1 }],
  too_long: [{ exp: NOW + 86_431 }],
  not_yet_valid: [{ iat: NOW + 31 }, { nbf: NOW + 31 }],
};

for (const [refusal, all] of Object.entries(REFUSED)) {
  test(`refused: ${refusal}`, (t) => {
    for (const claims of all) t.equal(refusalOf(claims), refusal, JSON.stringify(claims));
    t.end();
  });
}

test('an exp without an end is malformed', (t) => {
  const claims = JSON.parse(`{"iss": "a", "sub": "b", "aud": "${AUDIENCE}", "exp": 1e999}`) as object;
  t.equal(claimsRefusal({ ...claims }, { audience: AUDIENCE, now: 0 }), 'malformed');
  t.end();
});
