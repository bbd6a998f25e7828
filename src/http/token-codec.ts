import { createHmac, createPrivateKey, createSecretKey, sign } from 'node:crypto';
import fastify from 'fastify';
import fastifyJwt from '@fastify/jwt';
import {
  CLOCK_TOLERANCE,
  hasExpired,
  readClaims,
  type Claims,
  type PresentedIdentity,
  type TokenType,
} from '../domain/tokens/claims.ts';
import type { Clock } from '../domain/clock.ts';
import { UNOBSERVED, type Observe } from '../telemetry/observe.ts';
import type { TokenRefusal } from '../domain/metrics/outcomes.ts';
import type { KeyRing, KeySet, SigningKey } from '../domain/access-tokens/ports.ts';
import { makeVerifiedTokens, type VerifiedTokens } from './verified-tokens.ts';

export interface TokenCodecOptions {
  /** ISSUER. */
  issuer: string;
  /** AUDIENCE. */
  audience: string;
  observe?: Pick<Observe, 'tokenRefused'>;
  clock: Pick<Clock, 'now'>;
}

/** Signs and verifies our JWTs. The domain checks their sessions. */
export interface TokenCodec {
  sign(type: TokenType, claims: Claims): string;
  /** The key that signs this type now. The returned signer keeps this key, even if the current key changes. */
  signer(type: TokenType): Signer;
  /** @returns the identity in a valid token of one of these types; null for any other. */
  verify<Type extends TokenType>(
    token: string,
    ...types: Type[]
  ): Promise<(PresentedIdentity & { type: Type }) | null>;
  /** As `verify`, but also accepts expired tokens: enough to end their session. */
  verifySigned: TokenCodec['verify'];
  /** The claims of a token that `verify` has just accepted: a JSON object, as we wrote it. */
  payloadOf(token: string): string;
}

export interface Signer {
  kid: string;
  sign(claims: Claims): string;
}

const TYP: Record<TokenType, string> = { access: 'at+jwt', refresh: 'rt+jwt', llt: 'llt+jwt' };

/**
 * RFC 9068, section 2.2, asks for the client that a token was issued to. Users sign in to Latchkey itself, so all
 * tokens share this id. User ids are numbers, so it cannot be mistaken for one.
 */
const CLIENT_ID = 'latchkey';

/** The members of our headers. A token with others (`b64`, an embedded key) is not ours. */
const HEADER_MEMBERS = ['alg', 'kid', 'typ'];

/** The codes of fast-jwt for a wrong signature. */
const SIGNATURE_ERRORS = ['FAST_JWT_INVALID_SIGNATURE', 'FAST_JWT_MISSING_SIGNATURE'];

/** One key for one type of token. */
interface KeyCodec extends Signer {
  type: TokenType;
  verify(token: string, acceptsExpired: boolean): Record<keyof Claims, unknown>;
}

interface Codecs {
  /** The key that signs, by type. */
  signers: Record<TokenType, KeyCodec>;
  all: KeyCodec[];
  /** By the token's first segment, which is the same for all tokens of one key and type. */
  byHeader: Map<string, KeyCodec>;
  /** Access tokens and LLTs that these keys have signed. New keys begin with none. */
  verified: VerifiedTokens<Identity>;
}

type Identity = PresentedIdentity & { type: TokenType };

/** Opens the codec on the keys in use, and follows them as they change. */
export async function makeTokenCodec(keyRing: KeyRing, options: TokenCodecOptions): Promise<TokenCodec> {
  const { observe = UNOBSERVED, clock } = options;
  const refuse = (reason: TokenRefusal) => {
    observe.tokenRefused(reason);
    return null;
  };
  let codecs = await openCodecs(keyRing.current(), options);
  keyRing.onChange(async (keys) => {
    codecs = await openCodecs(keys, options);
  });

  const verifier =
    (acceptsExpired: boolean): TokenCodec['verify'] =>
    async <Type extends TokenType>(token: string, ...types: Type[]) => {
      // A refresh token is presented once, so none is in the cache.
      const isRefresh = (types as TokenType[]).includes('refresh');
      const known = isRefresh ? undefined : codecs.verified.get(token);
      if (known && isOf(known, types))
        return acceptsExpired || !hasExpired(known, clock.now()) ? known : refuse('expired');

      let codec = find(codecs, token);
      if (codec === undefined) {
        // Another replica may have loaded a new key before this one.
        await keyRing.reload();
        codec = find(codecs, token);
      }
      // null: not a header of ours; undefined: unknown key.
      if (!codec) return refuse(codec === null ? 'malformed' : 'unknown_key');
      const { type: found } = codec;
      const type = types.find((candidate) => candidate === found);
      if (!type) return refuse('wrong_type');
      const claims = check(codec, token, acceptsExpired);
      if (typeof claims === 'string') return refuse(claims);
      const identity = readClaims(claims, type);
      if (!identity) return refuse('malformed');
      const verified = { ...identity, type };
      if (type !== 'refresh') codecs.verified.add(token, verified);
      return verified;
    };

  return {
    sign: (type, claims) => codecs.signers[type].sign(claims),
    signer: (type) => codecs.signers[type],
    verify: verifier(false),
    verifySigned: verifier(true),
    payloadOf: (token) => {
      const start = token.indexOf('.') + 1;
      return Buffer.from(token.slice(start, token.indexOf('.', start)), 'base64url').toString();
    },
  };
}

async function openCodecs(keys: KeySet, options: TokenCodecOptions): Promise<Codecs> {
  const signing = keys.signing.flatMap(({ kid, algorithm, privateKey, publicKey }) =>
    (['access', 'llt'] as const).map((type) =>
      openCodec({ kid, type, algorithm, secret: { private: privateKey, public: publicKey } }, options),
    ),
  );
  const refresh = keys.refresh.map(({ kid, secret }) =>
    openCodec({ kid, type: 'refresh', algorithm: 'HS256', secret }, options),
  );
  const all = await Promise.all([...signing, ...refresh]);
  const signerOf = (type: TokenType) => {
    const signer = all.find((codec) => codec.type === type);
    if (!signer) throw new Error(`no key signs ${type} tokens`);
    return signer;
  };
  return {
    signers: { access: signerOf('access'), refresh: signerOf('refresh'), llt: signerOf('llt') },
    all,
    byHeader: new Map(
      all.map((codec) => [headerOf(codec.sign({ sub: '0', sid: 0, jti: '0', iat: 0 })), codec]),
    ),
    verified: makeVerifiedTokens(),
  };
}

interface CodecKey {
  kid: string;
  type: TokenType;
  algorithm: SigningKey['algorithm'] | 'HS256';
  secret: Buffer | { private: string; public: string };
}

/**
 * One key for one type of token.
 *
 * `node:crypto` signs, with a header that is encoded once. @fastify/jwt encodes it for each token, and a refresh signs two.
 *
 * @fastify/jwt verifies. With a function that finds the key, a token takes three times as long. Its keys cannot change
 * after the start, so each key gets a Fastify instance of its own, which only carries the plugin
 * (docs/adr/0004-one-jwt-instance-a-key.md).
 */
async function openCodec(
  { kid, type, algorithm, secret }: CodecKey,
  options: TokenCodecOptions,
): Promise<KeyCodec> {
  const { issuer, audience } = options;
  const carrier = fastify();
  await carrier.register(fastifyJwt, {
    secret: Buffer.isBuffer(secret) ? secret : { public: secret.public },
    verify: {
      algorithms: [algorithm],
      allowedIss: issuer,
      allowedAud: audience,
      checkTyp: TYP[type],
      requiredClaims: ['iss', 'aud', 'sub', 'sid', 'jti', 'iat'],
      clockTolerance: CLOCK_TOLERANCE * 1000,
    },
  });
  await carrier.ready();
  const header = encode(JSON.stringify({ alg: algorithm, typ: TYP[type], kid }));
  const fixed = JSON.stringify({
    iss: issuer,
    aud: audience,
    ...(type === 'access' && { client_id: CLIENT_ID }),
  });
  const signature = makeSignature(algorithm, Buffer.isBuffer(secret) ? secret : secret.private);
  return {
    kid,
    type,
    sign: (claims) => {
      const input = `${header}.${encode(`${JSON.stringify(claims).slice(0, -1)},${fixed.slice(1)}`)}`;
      return `${input}.${signature(input)}`;
    },
    verify: (token, acceptsExpired) =>
      acceptsExpired ? carrier.jwt.verify(token, { ignoreExpiration: true }) : carrier.jwt.verify(token),
  };
}

function encode(json: string): string {
  return Buffer.from(json).toString('base64url');
}

/** RFC 7515, section 5.1. @param key a PEM private key, or the secret of HS256. */
function makeSignature(algorithm: CodecKey['algorithm'], key: string | Buffer): (input: string) => string {
  if (Buffer.isBuffer(key)) {
    const secret = createSecretKey(key);
    return (input) => createHmac('sha256', secret).update(input).digest('base64url');
  }
  // EdDSA has its own hash. JWS writes an ECDSA signature as two numbers (RFC 7518, section 3.4), not as DER.
  const digest = algorithm === 'EdDSA' ? null : 'sha256';
  const options = { key: createPrivateKey(key), dsaEncoding: 'ieee-p1363' } as const;
  return (input) => sign(digest, Buffer.from(input), options).toString('base64url');
}

function isOf<Type extends TokenType>(
  identity: Identity,
  types: readonly Type[],
): identity is PresentedIdentity & { type: Type } {
  return (types as readonly TokenType[]).includes(identity.type);
}

/** The codec for a token's header, by key id and type; undefined for an unknown key, null for a foreign header. */
function find({ byHeader, all }: Codecs, token: string): KeyCodec | null | undefined {
  const known = byHeader.get(headerOf(token));
  if (known) return known;
  // Either a release with another order of members signed it, or it is not ours.
  const header = parseHeader(headerOf(token));
  if (!header) return null;
  return all.find(({ kid, type }) => kid === header.kid && TYP[type] === header.typ) ?? undefined;
}

/** The claims of a valid token, or the reason for its refusal. */
function check(
  codec: KeyCodec,
  token: string,
  acceptsExpired: boolean,
): Record<keyof Claims, unknown> | TokenRefusal {
  try {
    return codec.verify(token, acceptsExpired);
  } catch (error) {
    const { code = '' } = error as { code?: string };
    if (code === 'FAST_JWT_EXPIRED') return 'expired';
    return SIGNATURE_ERRORS.includes(code) ? 'signature' : 'malformed';
  }
}

function headerOf(token: string): string {
  return token.slice(0, token.indexOf('.'));
}

function parseHeader(segment: string): { kid?: unknown; typ?: unknown } | null {
  try {
    const header: unknown = JSON.parse(Buffer.from(segment, 'base64url').toString());
    const isOurs =
      typeof header === 'object' &&
      header !== null &&
      Object.keys(header).every((name) => HEADER_MEMBERS.includes(name));
    return isOurs ? header : null;
  } catch {
    return null;
  }
}
