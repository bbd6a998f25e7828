import {
  aPasskey,
  ecKey,
  FLAGS,
  rsaKey,
  type Algorithm,
  type EnrolmentOddities,
  type LoginOddities,
  type Oddities,
} from '../support/authenticator.ts';
import { encodeCbor, indefiniteMap, nestedArrays, withKeyTwice, type Cbor } from '../support/cbor.ts';
import type { Dice } from './dice.ts';

/** The page that the answers are for. */
export const SITE = { rpId: 'id.example.com', origin: 'https://shop.id.example.com' };

const ALGORITHMS: readonly Algorithm[] = ['ES256', 'Ed25519', 'RS256', 'ES384'];
const SHORT_RSA = aPasskey({ algorithm: 'RS256', bits: 1024 });
/** Made once, because RSA keys are slow to make. The last one is none that Latchkey takes. */
const PASSKEYS = ALGORITHMS.map((algorithm) => aPasskey({ algorithm, origin: SITE.origin }));

export interface Given {
  kind: 'enrolment' | 'login';
  /** What is odd about it, to be read by people. */
  what: string;
  /** Perhaps of another form than the type says. */
  answer: Record<string, unknown>;
  challenge: string;
  /** Of the passkey on record, for a login. */
  passkey: ReturnType<typeof aPasskey>;
}

/** An answer that an authenticator, a browser or an attacker may give: right, odd but well signed, or changed later. */
export function anAnswer(dice: Dice): Given {
  const challenge = Buffer.from(dice.word(32)).toString('base64url');
  const kind = dice.pick(['enrolment', 'login'] as const);
  const passkey = dice.pick(kind === 'login' ? PASSKEYS.slice(0, -1) : PASSKEYS);
  const oddities = dice.chance(0.6)
    ? [dice.pick(kind === 'login' ? LOGIN_ODDITIES : ENROLMENT_ODDITIES)]
    : [];
  if (dice.chance(0.15)) oddities.push(dice.pick(ODDITIES));
  const odd = Object.assign({}, ...oddities.map(([, make]) => make(dice))) as EnrolmentOddities &
    LoginOddities;
  const { rpId } = SITE;
  const honest =
    kind === 'login'
      ? passkey.logIn({ challenge, rpId }, { userHandle: 'AAAA', ...odd })
      : passkey.enrol({ challenge, rp: { id: rpId }, user: { id: 'AAAA' } }, odd);
  let answer: Record<string, unknown> = { ...honest };
  const what = oddities.map(([name]) => name);
  if (dice.chance(0.3)) {
    const [name, edit] = dice.pick(EDITS);
    answer = edited(answer, (text) => edit(text, dice), dice);
    what.push(name);
  } else if (dice.chance(0.1)) {
    const [name, members] = dice.pick(ENVELOPES);
    answer = { ...answer, ...members };
    what.push(name);
  }
  return { kind, what: what.join(', ') || 'honest', answer, challenge, passkey };
}

type Odd<Kind> = readonly [what: string, make: (dice: Dice) => Kind];

/** Of both ceremonies. All of it is signed. */
const ODDITIES: readonly Odd<Oddities>[] = [
  ['any flags', (dice) => ({ flags: dice.below(256) })],
  ['any counter', (dice) => ({ counter: dice.pick([0, 1, 2 ** 31, 2 ** 32 - 1]) })],
  ['no user verification', () => ({ flags: FLAGS.up })],
  ['backed up without eligibility', () => ({ flags: FLAGS.up | FLAGS.uv | FLAGS.bs })],
  [
    'another RP ID',
    (dice) => ({ rpId: dice.pick(['example.com', 'ID.example.com', '', 'id.example.com.']) }),
  ],
  ['another type', (dice) => ({ type: dice.pick(['webauthn.get', 'webauthn.create', 'payment.get', '']) })],
  ['another challenge', (dice) => ({ challenge: dice.pick(['', 'AAAA', '='.repeat(43)]) })],
  [
    'another origin',
    (dice) => ({
      origin: dice.pick([
        'https://id.example.com.evil.example',
        'https://evil.example',
        `${SITE.origin}/`,
        SITE.origin.toUpperCase(),
        `${SITE.origin}:443`,
        'http://shop.id.example.com',
        'null',
      ]),
    }),
  ],
  [
    'other members',
    (dice) => ({
      clientMembers: dice.pick<Record<string, unknown>>([
        { crossOrigin: true },
        { crossOrigin: undefined },
        { crossOrigin: 'true' },
        { crossOrigin: null },
        { crossOrigin: 0 },
        { topOrigin: 'https://evil.example' },
        { topOrigin: SITE.origin, crossOrigin: true },
        { topOrigin: null },
        { topOrigin: '' },
        { tokenBinding: { status: 'supported' } },
        { tokenBinding: 'x' },
        { tokenBinding: { status: 'present', id: 'AAAA' } },
        { tokenBinding: { status: 'x' } },
        { other: 'x'.repeat(5000) },
        { __proto__: null, constructor: 'x' },
      ]),
    }),
  ],
  [
    'strange client data',
    (dice) => ({
      clientData: dice.pick<NonNullable<Oddities['clientData']>>([
        () => Buffer.of(),
        () => Buffer.of(0xff, 0xfe, 0x7b, 0x7d),
        () => Buffer.from('null'),
        () => Buffer.from('[]'),
        () => Buffer.from('"webauthn.get"'),
        () => Buffer.from('{"type":"webauthn.get"}'),
        () => Buffer.from('['.repeat(4000)),
        (right) => Buffer.concat([Buffer.of(0xef, 0xbb, 0xbf), right]),
        (right) => Buffer.concat([Buffer.from(' \n'), right, Buffer.from('\t')]),
        (right) => Buffer.concat([right, Buffer.of(0)]),
        (right) => withMember(right, Buffer.from('"other":"\u00e4"')),
        (right) => withMember(right, Buffer.from('"other":"\u00ff"', 'latin1')),
        (right) => withMember(right, Buffer.from('"type":"payment.get"')),
        (right) => withMember(right, Buffer.from('"crossOrigin":true')),
      ]),
    }),
  ],
  [
    'bytes after the authenticator data',
    (dice) => ({ suffix: dice.pick([Buffer.of(0), Buffer.of(0xa0), Buffer.alloc(100, 0xa0)]) }),
  ],
  [
    'extensions',
    (dice) => ({
      flags: FLAGS.up | FLAGS.uv | FLAGS.ed,
      suffix: dice.pick([
        Buffer.of(),
        encodeCbor(new Map()),
        encodeCbor(new Map<Cbor, Cbor>([['credProtect', 2]])),
        encodeCbor(new Map<Cbor, Cbor>([['a', new Map<Cbor, Cbor>([['b', [1, 2]]])]])),
        encodeCbor(7),
        encodeCbor([]),
        encodeCbor(nestedArrays(10_000)),
        encodeCbor(indefiniteMap(new Map<Cbor, Cbor>([['a', 1]]))),
        encodeCbor(withKeyTwice(new Map<Cbor, Cbor>([['a', 1]]))),
        Buffer.concat([encodeCbor(new Map()), Buffer.of(0)]),
      ]),
    }),
  ],
];

const ENROLMENT_ODDITIES: readonly Odd<EnrolmentOddities>[] = [
  ...ODDITIES,
  ['another key', (dice) => ({ coseKey: dice.pick(coseKeys()) })],
  ['another key', (dice) => ({ coseKey: dice.pick(coseKeys()) })],
  ['a changed key', (dice) => ({ coseKey: changed(dice.pick(PASSKEYS).coseKey, dice) })],
  ['an id', (dice) => ({ credentialId: Buffer.alloc(dice.pick([0, 1, 15, 16, 64, 1023, 1024, 1025]), 1) })],
  ['without resident key', () => ({ extensions: { credProps: { rk: false } } })],
  ['other extension results', (dice) => ({ extensions: dice.pick([{}, { credProps: {} }, { other: 1 }]) })],
  [
    'another statement',
    (dice) => ({
      format: dice.pick(['none', 'packed', 'fido-u2f', 'tpm', 'apple', 'android-key', 'x']),
      statement: dice.pick<Cbor>([
        new Map<Cbor, Cbor>([
          ['alg', -7],
          ['sig', Buffer.alloc(64, 1)],
        ]),
        new Map<Cbor, Cbor>([['x5c', [Buffer.alloc(500, 0x30)]]]),
        new Map(),
        7,
        [],
      ]),
    }),
  ],
  [
    'a strange attestation object',
    (dice) => ({
      attestationObject: dice.pick<NonNullable<EnrolmentOddities['attestationObject']>>([
        () => encodeCbor(nestedArrays(10_000)),
        () => encodeCbor(nestedArrays(5)),
        () => Buffer.of(),
        (entries) => encodeCbor(indefiniteMap(entries)),
        (entries) => encodeCbor(withKeyTwice(entries)),
        (entries) => encodeCbor([...entries.values()]),
        (entries) => encodeCbor(new Map([...entries].reverse())),
        (entries) => encodeCbor(new Map([...entries, ['other', 1]])),
        (entries) => encodeCbor(new Map([...entries, ['other', nestedArrays(10_000)]])),
        (entries) => encodeCbor(new Map([...entries].slice(1))),
        (entries) => encodeCbor(new Map([...entries].slice(0, 2))),
        (entries) => Buffer.concat([encodeCbor(entries), Buffer.of(0)]),
        (entries) => encodeCbor(entries).subarray(0, -1),
      ]),
    }),
  ],
];

const LOGIN_ODDITIES: readonly Odd<LoginOddities>[] = [
  ...ODDITIES,
  ['another handle', (dice) => ({ userHandle: dice.pick([null, '', 'AAAB', 'A'.repeat(86)]) })],
  ['another signature', (dice) => ({ signature: (right) => changed(right, dice) })],
  ['a signature of another key', () => ({ signature: (right) => Buffer.alloc(right.length, 1) })],
  ['a signature of zeros', () => ({ signature: () => Buffer.from('3006020100020100', 'hex') })],
];

/** Another member at the end of client data. */
function withMember(clientData: Buffer, member: Buffer): Buffer {
  return Buffer.concat([clientData.subarray(0, -1), Buffer.from(','), member, Buffer.from('}')]);
}

/** Keys that a service must refuse, and one that it takes. */
function coseKeys(): Buffer[] {
  const [es256, ed25519, rs256] = PASSKEYS;
  if (!es256 || !ed25519 || !rs256) throw new Error('no passkey');
  const { x = '', y = '' } = es256.privateKey.export({ format: 'jwk' });
  const { n = '' } = rs256.privateKey.export({ format: 'jwk' });
  const [bx, by, modulus] = [x, y, n].map((part) => Buffer.from(part, 'base64url')) as [
    Buffer,
    Buffer,
    Buffer,
  ];
  const exponent = Buffer.of(1, 0, 1);
  const key = (entries: [Cbor, Cbor][]) => encodeCbor(new Map(entries));
  return [
    es256.coseKey,
    // Its coordinate claims more bytes than there are.
    Buffer.from(ed25519.coseKey.toString('hex').replace(/5820(?=.{64}$)/, '5828'), 'hex'),
    SHORT_RSA.coseKey,
    key(ecKey(-7, 1, bx, Buffer.alloc(32, 2))),
    key(ecKey(-7, 1, Buffer.alloc(32), Buffer.alloc(32))),
    key(ecKey(-7, 1, Buffer.of(), Buffer.of())),
    key(ecKey(-7, 1, Buffer.concat([Buffer.of(0), bx]), by)),
    key(ecKey(-7, 2, bx, by)),
    key(ecKey(-8, 1, bx, by)),
    key(ecKey(-47, 8, bx, by)),
    key([...ecKey(-7, 1, bx, by), [2, Buffer.from('kid')]]),
    key(ecKey(-7, 1, bx, by).reverse()),
    encodeCbor(withKeyTwice(new Map(ecKey(-7, 1, bx, by)))),
    encodeCbor(indefiniteMap(new Map(ecKey(-7, 1, bx, by)))),
    encodeCbor(nestedArrays(10_000)),
    key([
      [1, 1],
      [3, -8],
      [-1, 6],
      [-2, Buffer.alloc(31, 1)],
    ]),
    key([
      [1, 1],
      [3, -8],
      [-1, 7],
      [-2, Buffer.alloc(57, 1)],
    ]),
    key(rsaKey(modulus, Buffer.of(3))),
    key(rsaKey(modulus, Buffer.alloc(256, 0xff))),
    key(rsaKey(modulus, Buffer.of())),
    key(rsaKey(Buffer.concat([Buffer.of(0), modulus]), exponent)),
    key(rsaKey(modulus, Buffer.of(0, 1, 0, 1))),
    key(rsaKey(Buffer.alloc(512, 0xff), exponent)),
    key(rsaKey(Buffer.alloc(513, 0xff), exponent)),
    key(rsaKey(Buffer.alloc(256, 0xfe), exponent)),
    key(rsaKey(modulus, exponent).map(([label, value]) => (label === 3 ? [3, -37] : [label, value]))),
  ];
}

/** What happens to a member of the response, or to both ids, after the signature. */
const EDITS: readonly (readonly [what: string, edit: (text: string, dice: Dice) => string])[] = [
  ['changed bytes', (text, dice) => inBase64url(changed(bytesOf(text), dice))],
  ['changed bytes', (text, dice) => inBase64url(changed(bytesOf(text), dice))],
  ['padding', (text) => `${text}=`],
  ['the other alphabet', (text) => bytesOf(text).toString('base64')],
  ['white space', (text) => `${text}\n`],
  ['another spelling', (text, dice) => `${text.slice(0, -1)}${dice.word(1)}`],
  ['other letters', (text) => `${text}ä!`],
];

/** The same for the other members. */
const ENVELOPES: readonly (readonly [what: string, members: Record<string, unknown>])[] = [
  ['another type', { type: 'public_key' }],
  ['another id', { id: 'AAAA' }],
  ['another raw id', { rawId: 'AAAA' }],
  ['both ids are others', { id: 'AAAA', rawId: 'AAAA' }],
  ['unknown members', { other: 1, authenticatorAttachment: 'x' }],
];

function edited(answer: Record<string, unknown>, edit: (text: string) => string, dice: Dice) {
  const response = answer.response as Record<string, unknown>;
  const names = Object.keys(response).filter((name) => name !== 'transports' && name !== 'userHandle');
  const name = dice.pick([...names, 'id']);
  if (name !== 'id') return { ...answer, response: { ...response, [name]: edit(String(response[name])) } };
  const id = edit(String(answer.id));
  return { ...answer, id, rawId: id };
}

/** One to three bytes or bits are other ones, or bytes are missing or more. */
function changed(bytes: Buffer, dice: Dice): Buffer {
  const result = Buffer.from(bytes);
  for (let left = 1 + dice.below(3); left > 0 && result.length > 0; left--) {
    const at = dice.below(result.length);
    result[at] = dice.chance(0.5) ? (result[at] ?? 0) ^ (1 << dice.below(8)) : dice.below(256);
  }
  if (dice.chance(0.2)) return result.subarray(0, dice.below(result.length + 1));
  if (dice.chance(0.2)) return Buffer.concat([result, Buffer.from(dice.word(1 + dice.below(3)))]);
  return result;
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'base64url');
}

function inBase64url(bytes: Buffer): string {
  return bytes.toString('base64url');
}
