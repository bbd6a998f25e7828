import { createHmac, createPrivateKey, createPublicKey, sign } from 'node:crypto';
import { claimsOf, headerOf } from '../support/client.ts';
import { KEYS } from '../support/keys.ts';
import { forge } from '../support/tokens.ts';

/** Tokens by their defect. */
export type Forgeries = Record<string, string>;

/** An attacker's material: a good token, the public key, and a key pair of their own. */
export interface Loot {
  /** A good token, signed by the service. */
  token: string;
  /** The service's signing key; only its public half is used to forge. */
  pem: string;
  /** A key server that the attacker runs. */
  keyServer: string;
}

/** Forgeries that do not need our key: `alg`, HMAC with the public key, keys that the token brings or names. */
export function withoutOurKey({ token, pem, keyServer }: Loot): Forgeries {
  const [header, claims] = [headerOf(token), claimsOf(token)];
  const own = KEYS.ES256();
  const [ourJwk, ownJwk] = [jwkOf(pem), jwkOf(own)];
  const certificate = createPublicKey(own).export({ type: 'spki', format: 'der' }).toString('base64');
  return {
    ...unsigned(token),
    ...hmacWithPublicKey(token, pem),
    ...keyIds(token, own),
    'another key under our kid': forge(header, claims, own),
    'a jwk of its own': forge({ ...header, jwk: ownJwk }, claims, own),
    'a jwk of its own under its own kid': forge({ ...header, kid: 'own', jwk: ownJwk }, claims, own),
    'our jwk, signed with another key': forge({ ...header, jwk: ourJwk }, claims, own),
    'a jku': forge({ ...header, kid: 'own', jku: `${keyServer}/jwks.json` }, claims, own),
    'a jku under our kid': forge({ ...header, jku: `${keyServer}/jwks.json` }, claims, own),
    'an x5u': forge({ ...header, kid: 'own', x5u: `${keyServer}/chain.pem` }, claims, own),
    'an x5c': forge({ ...header, x5c: [certificate] }, claims, own),
    'a crit with an unknown name': forge({ ...header, crit: ['x'], x: 1 }, claims, own),
    'another curve': signedBy('EdDSA', token),
    'another algorithm': signedBy('RS256', token),
  };
}

function unsigned(token: string): Forgeries {
  const [header, claims] = [headerOf(token), claimsOf(token)];
  const signature = token.split('.')[2] ?? '';
  const forgeries: Forgeries = {};
  for (const alg of ['none', 'None', 'NONE', 'nOnE', '', ' none', 'none\0', null, false, 0, ['none'], {}]) {
    const input = encoded({ ...header, alg }, claims);
    forgeries[`alg ${JSON.stringify(alg)}, unsigned`] = `${input}.`;
    forgeries[`alg ${JSON.stringify(alg)}, with the old signature`] = `${input}.${signature}`;
  }
  return {
    ...forgeries,
    'no alg': `${encoded({ kid: header.kid, typ: header.typ }, claims)}.${signature}`,
    'alg twice': `${segment('{"alg":"none",' + JSON.stringify(header).slice(1))}.${segment(JSON.stringify(claims))}.`,
    'alg none last': `${segment(JSON.stringify(header).slice(0, -1) + ',"alg":"none"}')}.${segment(JSON.stringify(claims))}.`,
    'nothing but alg none': `${encoded({ alg: 'none' }, claims)}.`,
  };
}

/** Algorithm confusion: the public key as the secret of an HMAC. */
function hmacWithPublicKey(token: string, pem: string): Forgeries {
  const [header, claims] = [headerOf(token), claimsOf(token)];
  const key = createPublicKey(createPrivateKey(pem));
  const text = key.export({ type: 'spki', format: 'pem' }).toString();
  const jwk = key.export({ format: 'jwk' });
  const secrets: Record<string, string | Buffer> = {
    PEM: text,
    'PEM without its last line end': text.trim(),
    'PEM with CR LF': text.replaceAll('\n', '\r\n'),
    DER: key.export({ type: 'spki', format: 'der' }),
    JWK: JSON.stringify(jwk),
    'coordinates of the JWK': Buffer.from(`${jwk.x ?? ''}${jwk.y ?? ''}`, 'base64url'),
    'key id': String(header.kid),
    'empty text': '',
  };
  return Object.fromEntries(
    Object.entries(secrets).flatMap(([name, secret]) =>
      ['HS256', 'HS384', 'HS512'].map((alg) => [
        `${alg} with the public key’s ${name}`,
        forge({ ...header, alg }, claims, secret),
      ]),
    ),
  );
}

const KIDS: unknown[] = [
  '../../../../../../dev/null',
  '/dev/null',
  '/proc/self/environ',
  'file:///etc/passwd',
  "x' UNION SELECT 'secret' --",
  "'; DROP TABLE signing_keys; --",
  '| sleep 9',
  '__proto__',
  'constructor',
  'toString',
  'own',
  '',
  'x'.repeat(4000),
  'null\0',
  null,
  0,
  [],
  {},
  { toString: 1 },
];

function keyIds(token: string, own: string): Forgeries {
  const [header, claims] = [headerOf(token), claimsOf(token)];
  const forgeries: Forgeries = {};
  for (const kid of [
    ...KIDS,
    [header.kid],
    { $ne: '' },
    ` ${String(header.kid)}`,
    `${String(header.kid)}\0`,
  ]) {
    const name = JSON.stringify(kid).slice(0, 40);
    forgeries[`kid ${name}`] = forge({ ...header, kid }, claims, own);
    // An empty or missing file, in case a verifier takes it as a key.
    forgeries[`kid ${name}, HMAC with nothing`] = forge({ ...header, kid, alg: 'HS256' }, claims, '');
  }
  forgeries['no kid'] = forge({ alg: header.alg, typ: header.typ }, claims, own);
  return forgeries;
}

function signedBy(alg: 'EdDSA' | 'RS256', token: string): string {
  return forge({ ...headerOf(token), alg }, claimsOf(token), KEYS[alg]());
}

/** Malformed tokens: truncated, oversized, of another form, or with another signature. */
export function broken(token: string): Forgeries {
  const [header = '', payload = '', signature = ''] = token.split('.');
  const raw = Buffer.from(signature, 'base64url');
  const forged = (bytes: Buffer) => `${header}.${payload}.${bytes.toString('base64url')}`;
  const other = (claims: object) =>
    `${header}.${segment(JSON.stringify({ ...claimsOf(token), ...claims }))}.${signature}`;
  return {
    'nothing but a header': header,
    'nothing but a header and a dot': `${header}.`,
    'no signature': `${header}.${payload}`,
    'an empty signature': `${header}.${payload}.`,
    'no payload': `${header}..${signature}`,
    'no header': `.${payload}.${signature}`,
    dots: '...',
    'one character less': token.slice(0, -2),
    'half of it': token.slice(0, token.length / 2),
    'four parts': `${token}.x`,
    'five parts, as a JWE has': `${segment('{"alg":"dir","enc":"A256GCM"}')}..${payload}.${signature}.x`,
    'five parts that begin as ours': `${header}.${payload}.${signature}.${signature}.${signature}`,
    'JSON serialization': JSON.stringify({ payload, signatures: [{ protected: header, signature }] }),
    twice: `${token}${token}`,
    'two in a list': `${token},${token}`,
    'another owner': other({ sub: '2' }),
    'another session': other({ sid: 999_999 }),
    'a later expiry': other({ exp: 9_999_999_999 }),
    'the claims of another payload': `${header}.${segment('{"sub":"1"}')}.${signature}`,
    'a signature of zeros': forged(Buffer.alloc(raw.length)),
    'a signature of ones': forged(Buffer.alloc(raw.length, 0xff)),
    'a signature that is longer': forged(Buffer.concat([raw, Buffer.alloc(1)])),
    'a signature with its halves swapped': forged(
      Buffer.concat([raw.subarray(raw.length / 2), raw.subarray(0, raw.length / 2)]),
    ),
    'a signature with one bit changed': forged(
      Buffer.concat([raw.subarray(0, -1), Buffer.from([(raw.at(-1) ?? 0) ^ 1])]),
    ),
    'a payload with one byte more': `${header}.${segment(Buffer.from(payload, 'base64url').toString() + ' ')}.${signature}`,
    '10 KB of nothing': 'x'.repeat(10_000),
    '10 KB of dots': '.'.repeat(10_000),
    'a deep header': `${segment('['.repeat(5000))}.${payload}.${signature}`,
  };
}

/** What a body can hold and no header: the parser of forms decodes it, and the codec has to refuse it. */
export function beyondHeaders(token: string): Forgeries {
  return {
    NUL: '\0',
    'a NUL at its end': `${token}\0`,
    'a line end': `${token}\r\n`,
    'text beyond Latin 1': '日本.🎉.x',
    spaces: '   ',
    'two with a space': `${token} ${token}`,
    'a scheme before it': `Bearer ${token}`,
    JSON: JSON.stringify({ token }),
    '15 KB': 'x'.repeat(15_000),
  };
}

/** Signs tokens of one type. */
export type Signer = (header: Record<string, unknown>, claims: object | string) => string;

/** Signs with a private key; the payload need not be an object. */
export function signerOf(key: string | Buffer): Signer {
  return (header, claims) => {
    const payload = typeof claims === 'string' ? claims : JSON.stringify(claims);
    const input = `${segment(JSON.stringify(header))}.${segment(payload)}`;
    const bytes = Buffer.from(input);
    const signature = Buffer.isBuffer(key)
      ? createHmac('sha256', key).update(bytes).digest()
      : sign('sha256', bytes, { key: createPrivateKey(key), dsaEncoding: 'ieee-p1363' });
    return `${input}.${signature.toString('base64url')}`;
  };
}

/**
 * Tokens with a valid signature and claims that we never issue. No attacker has the key, but another service, an older
 * version or a bug may have signed them.
 */
export function neverIssued(token: string, signed: Signer): Forgeries {
  const [header, claims] = [headerOf(token), claimsOf(token)];
  const now = Math.floor(Date.now() / 1000);
  const text = JSON.stringify(claims);
  return {
    ...ofClaims(claims, (changed) => signed(header, changed), now),
    ...ofHeader(header, (changed) => signed(changed, claims)),
    'a second sub for another owner': signed(header, `${text.slice(0, -1)},"sub":"999999"}`),
    'claims that are a list': signed(header, '[]'),
    'claims that are text': signed(header, '"x"'),
    'claims that are null': signed(header, 'null'),
    'claims that are a number': signed(header, '7'),
    'no claims': signed(header, '{}'),
    'no claims at all': signed(header, ''),
    'claims that are not JSON': signed(header, text.slice(0, -1)),
  };
}

/** Values that no claim may have. */
const ODD: unknown[] = [
  null,
  true,
  '',
  [],
  {},
  -1,
  0,
  1.5,
  2 ** 53,
  1e300,
  'x',
  '__proto__',
  [1],
  { valueOf: 1 },
];

function ofClaims(
  claims: Record<string, unknown>,
  signed: (claims: object) => string,
  now: number,
): Forgeries {
  const forgeries: Forgeries = {};
  for (const name of ['sub', 'sid', 'jti', 'iss', 'aud', ...('gen' in claims ? ['gen'] : [])]) {
    for (const value of ODD)
      forgeries[`${name} ${JSON.stringify(value)}`] = signed({ ...claims, [name]: value });
    forgeries[`no ${name}`] = signed({ ...claims, [name]: undefined });
    forgeries[`${name} as text or number`] = signed({ ...claims, [name]: flipped(claims[name]) });
  }
  for (const value of [null, true, '', [], {}, 'x', String(now + 900), [now + 900], 2 ** 53, 1e300]) {
    forgeries[`exp ${JSON.stringify(value)}`] = signed({ ...claims, exp: value });
    forgeries[`iat ${JSON.stringify(value)}`] = signed({ ...claims, iat: value });
  }
  return {
    ...forgeries,
    'another issuer': signed({ ...claims, iss: 'http://localhost:3001' }),
    'an issuer that begins as ours': signed({ ...claims, iss: `${String(claims.iss)}.evil.example` }),
    'an issuer in another case': signed({ ...claims, iss: String(claims.iss).toUpperCase() }),
    'several issuers': signed({ ...claims, iss: [claims.iss, 'x'] }),
    'another audience': signed({ ...claims, aud: 'latchkey2' }),
    'other audiences': signed({ ...claims, aud: ['a', 'b'] }),
    'another owner': signed({ ...claims, sub: '999999' }),
    'another session': signed({ ...claims, sid: 999_999, jti: changedSid(claims) }),
    'not before tomorrow': signed({ ...claims, nbf: now + 86_400 }),
  };
}

function flipped(value: unknown): unknown {
  return typeof value === 'string' && Number.isFinite(Number(value)) ? Number(value) : String(value) + ' ';
}

function changedSid({ gen }: Record<string, unknown>): string {
  return gen === undefined ? '999999' : `999999.${Number(gen)}`;
}

function ofHeader(
  header: Record<string, unknown>,
  signed: (header: Record<string, unknown>) => string,
): Forgeries {
  const forgeries: Forgeries = {};
  for (const typ of [
    'JWT',
    'jwt',
    '',
    null,
    0,
    ['at+jwt'],
    'at+jwt ',
    'dpop+jwt',
    'logout+jwt',
    'id+jwt',
    'application/jose',
  ]) {
    forgeries[`typ ${JSON.stringify(typ)}`] = signed({ ...header, typ });
  }
  return {
    ...forgeries,
    'no typ': signed({ alg: header.alg, kid: header.kid }),
    'crit with an unknown name': signed({ ...header, crit: ['x'], x: 1 }),
    'crit with exp': signed({ ...header, crit: ['exp'], exp: 1 }),
    'an empty crit': signed({ ...header, crit: [] }),
    'b64 false': signed({ ...header, b64: false, crit: ['b64'] }),
    'b64 false without crit': signed({ ...header, b64: false }),
  };
}

/** Each type of token presented as each other type, signed with its own key and with the other key. */
export function typeConfusion(
  tokens: Record<'access' | 'refresh' | 'llt', string>,
  signers: { key: Signer; secret: Signer },
): Record<'access' | 'refresh', Forgeries> {
  const bearer: Forgeries = { 'a refresh token': tokens.refresh };
  const refresh: Forgeries = { 'an access token': tokens.access, 'a long-lived token': tokens.llt };
  for (const [from, token] of Object.entries(tokens)) {
    for (const [to, other] of Object.entries(tokens)) {
      if (from === to) continue;
      for (const [by, signed] of Object.entries(signers)) {
        const forgeries = to === 'refresh' ? refresh : bearer;
        // With the claims, header and key of a type, a token is of that type.
        const isReal = (to === 'refresh') === (by === 'secret') && ![from, to].includes('llt');
        if (!isReal) {
          const name = `the claims of ${from} under the header of ${to}, signed with the ${by}`;
          forgeries[name] = signed(headerOf(other), claimsOf(token));
        }
        const retyped = { ...headerOf(token), typ: headerOf(other).typ };
        forgeries[`${from} with the typ of ${to}, signed with the ${by}`] = signed(retyped, claimsOf(token));
      }
    }
  }
  return { access: bearer, refresh };
}

/** The other valid ECDSA signature of the same message: s → n − s. */
export function malleated(token: string): string {
  const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
  const [header = '', payload = '', signature = ''] = token.split('.');
  const raw = Buffer.from(signature, 'base64url');
  const s = order - BigInt(`0x${raw.subarray(32).toString('hex')}`);
  const other = Buffer.concat([raw.subarray(0, 32), Buffer.from(s.toString(16).padStart(64, '0'), 'hex')]);
  return `${header}.${payload}.${other.toString('base64url')}`;
}

/** The same signature in the DER encoding of X.509. */
export function asDer(token: string): string {
  const [header = '', payload = '', signature = ''] = token.split('.');
  const raw = Buffer.from(signature, 'base64url');
  const integers = [raw.subarray(0, 32), raw.subarray(32)].map((half) => {
    const bytes = (half[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.alloc(1), half]) : half;
    return Buffer.concat([Buffer.from([2, bytes.length]), bytes]);
  });
  const body = Buffer.concat(integers);
  return `${header}.${payload}.${Buffer.concat([Buffer.from([0x30, body.length]), body]).toString('base64url')}`;
}

function jwkOf(pem: string): object {
  return createPublicKey(createPrivateKey(pem)).export({ format: 'jwk' });
}

function encoded(header: object, claims: object): string {
  return `${segment(JSON.stringify(header))}.${segment(JSON.stringify(claims))}`;
}

function segment(text: string): string {
  return Buffer.from(text).toString('base64url');
}
