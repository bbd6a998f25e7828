import { createHmac, createPrivateKey, createSecretKey, sign, timingSafeEqual } from 'node:crypto';
import fastify from 'fastify';
import fastifyJwt from '@fastify/jwt';
import {
  CLIENT_ID,
  hasExpired,
  isTooOld,
  readClaims,
  readLimits,
  readServiceClaims,
  type Claims,
  type ExchangedClaims,
  type LimitedClaims,
  type PresentedIdentity,
  type PresentedType,
  type ServiceClaims,
  type TokenType,
} from '../domain/tokens/claims.ts';
import type { Config } from '../config/config.ts';
import type { Clock } from '../domain/clock.ts';
import { AuthError } from '../domain/errors.ts';
import type { Observe } from '../telemetry/observe.ts';
import type { ServiceBearer } from '../domain/principal.ts';
import type { TokenRefusal } from '../domain/refusal-reasons.ts';
import type { TokenLimits } from '../domain/tokens/token-record.ts';
import type { KeyRing, KeySet, SigningKey } from '../domain/access-tokens/ports.ts';
import { UNLIMITED_REMEMBERED } from '../domain/sizing/remembered-tokens.ts';
import { makeIdentityPacking, type Identity } from './identity-packing.ts';
import { makeVerifiedCredentials } from './verified-credentials.ts';

export interface TokenCodecOptions {
  config: Pick<Config, 'ISSUER' | 'AUDIENCE' | 'REFRESH_TOKEN_TTL'>;
  observe: Pick<Observe, 'tokenRefused' | 'signatureChecked'>;
  clock: Pick<Clock, 'now' | 'isTrusted'>;
  /** Verified tokens that it surely remembers; as without a memory limit by default. */
  rememberedTokens?: number;
}

/** What all tokens of ours name. */
interface Names {
  issuer: string;
  audience: string;
}

/** The types of tokens whose audience is AUDIENCE. */
type OwnType = Exclude<TokenType, 'limited'>;

/** Signs and verifies our JWTs. The domain checks their sessions. */
export interface TokenCodec {
  sign(type: OwnType, claims: Claims): string;
  /** Signs a token whose audience is in its claims: an exchanged one, or a service token. */
  signFor(claims: ExchangedClaims | ServiceClaims): string;
  /** The key that signs this type now. The returned signer keeps this key, even if the current key changes. */
  signer(type: OwnType): Signer;
  /** As `signer`, for limited tokens, whose audience is in their claims. */
  limitedSigner(): Signer<LimitedClaims>;
  /**
   * @returns the identity in a valid token of one of these types; the reason for any other. A limited token is valid if
   *   its audience is AUDIENCE.
   * @throws AuthError `unavailable` if it has expired by a clock that is not trusted
   */
  verify<Type extends TokenType>(token: string, ...types: Type[]): Promise<IdentityOf<Type> | TokenRefusal>;
  /** As `verify`, for a request that may end the token: a limited one may end itself whatever its audience. */
  verifyToEnd<Type extends TokenType>(
    token: string,
    ...types: Type[]
  ): Promise<IdentityOf<Type> | TokenRefusal>;
  /** As `verifyToEnd`, but also accepts expired tokens. */
  verifySigned<Type extends PresentedType>(
    token: string,
    ...types: Type[]
  ): Promise<IdentityOf<Type> | TokenRefusal>;
  /** As `verifySigned`, for a service token of any audience. */
  verifySignedService(token: string): Promise<ServiceBearer | TokenRefusal>;
  /**
   * @param others also accepted, for this audience: a limited token.
   * @returns the identity in a valid token for exactly this audience, exchanged or a service's own; the reason for any
   *   other.
   */
  verifyFor<Other extends 'limited' = never>(
    token: string,
    audience: string,
    ...others: Other[]
  ): Promise<ForAudience | IdentityOf<Other> | TokenRefusal>;
  /** The claims of a token that `verify` has just accepted: a JSON object, as we wrote it. */
  payloadOf(token: string): string;
}

/** `actor` is the client id of the service that acts for the user; empty for none. */
export type ForAudience = (PresentedIdentity & { type: 'exchanged'; actor: string }) | ServiceBearer;

/** The identity in a user's token, and what a limited one is good for. */
export type IdentityOf<Type extends PresentedType> = Type extends 'limited'
  ? PresentedIdentity & { type: 'limited' } & TokenLimits
  : PresentedIdentity & { type: Type };

export interface Signer<Signed = Claims> {
  kid: string;
  sign(claims: Signed): string;
}

const TYP: Record<TokenType, string> = {
  access: 'at+jwt',
  refresh: 'rt+jwt',
  llt: 'llt+jwt',
  limited: 'limited+jwt',
};

/** The members of our headers. A token with others (`b64`, an embedded key) is not ours. */
const HEADER_MEMBERS = ['alg', 'kid', 'typ'];

/** The codes of fast-jwt for a wrong signature. */
const SIGNATURE_ERRORS = ['FAST_JWT_INVALID_SIGNATURE', 'FAST_JWT_MISSING_SIGNATURE'];

/** The claims of a token, not yet read. */
type RawClaims = Partial<Record<keyof ExchangedClaims | keyof ServiceClaims | keyof LimitedClaims, unknown>>;

/** One key for one type of token. That of access tokens is for all tokens with their header. */
interface KeyCodec extends Signer {
  type: TokenType;
  algorithm: Algorithm;
  signFor(claims: ExchangedClaims | ServiceClaims | LimitedClaims): string;
  check: CheckToken;
}

/**
 * Checks a token whose header names this key: its signature, issuer and audience, but not its expiry. It does not check
 * the audience of an access token or a limited one: exchanged tokens and service tokens have the header of access tokens,
 * and their claims tell them apart; a limited token may be for any audience.
 */
type CheckToken = (token: string) => RawClaims | TokenRefusal;

type Algorithm = SigningKey['algorithm'] | 'HS256';

interface Codecs {
  /** The key that signs, by type. */
  signers: Record<TokenType, KeyCodec>;
  all: KeyCodec[];
  /** By the token's first segment, which is the same for all tokens of one key and type. */
  byHeader: Map<string, KeyCodec>;
}

/** The kinds of tokens; a route that does not name a kind refuses it. */
type Kind = PresentedType | 'service';
type OfKind<Each extends Kind> = Each extends 'service'
  ? ServiceBearer
  : Each extends PresentedType
    ? Identity<Each>
    : never;

/** Opens the codec on the keys in use, and follows them as they change. */
export async function makeTokenCodec(keyRing: KeyRing, options: TokenCodecOptions): Promise<TokenCodec> {
  const { config, observe, clock, rememberedTokens = UNLIMITED_REMEMBERED } = options;
  const { ISSUER: issuer, AUDIENCE: audience } = config;
  const names = { issuer, audience };
  const lifetimes = { refreshToken: config.REFRESH_TOKEN_TTL };
  const refuse = (reason: TokenRefusal) => {
    observe.tokenRefused(reason);
    return reason;
  };
  let codecs = await openCodecs(keyRing.current(), names);
  const verified = makeVerifiedCredentials(rememberedTokens, makeIdentityPacking());
  keyRing.onChange(async (keys) => {
    codecs = await openCodecs(keys, names);
    // The key that signed a token may be gone.
    verified.clear();
  });

  /** A refresh token is presented once, so none is remembered. */
  function recall<Each extends Kind>(token: string, kinds: readonly Each[]): OfKind<Each> | undefined {
    const isRefresh = (kinds as readonly Kind[]).includes('refresh');
    const known = isRefresh ? undefined : verified.get(token);
    return known && isOf(known, kinds) ? known : undefined;
  }

  function read<Each extends Kind>(token: string, kinds: readonly Each[]): OfKind<Each> | TokenRefusal {
    const codec = find(codecs, token);
    if (codec === 'type') return codec;
    if (typeof codec === 'string') return claimRefusal(token, { issuer }, codec);
    if (!kinds.some((kind) => keyTypeOf(kind) === codec.type)) return 'type';
    if (codec.type !== 'refresh') observe.signatureChecked();
    const claims = codec.check(token);
    if (typeof claims === 'string') return claims;
    const kind = codec.type === 'access' ? kindOf(claims) : codec.type;
    const isAsked = (kinds as readonly Kind[]).includes(kind);
    if (!isAsked) return kind === 'service' ? 'type' : 'audience';
    const identity = kind === 'service' ? readServiceClaims(claims) : identityOf(claims, kind);
    // An access token of an older AUDIENCE looks like an exchanged one, but holds a generation.
    if (!identity) return kind === 'exchanged' && readClaims(claims, 'access') ? 'audience' : 'malformed';
    if (kind !== 'refresh' && !hasExpired(identity, clock.now())) verified.add(token, identity);
    return identity as OfKind<Each>;
  }

  function kindOf(claims: RawClaims): 'access' | 'exchanged' | 'service' {
    if (claims.client_version !== undefined) return 'service';
    return claims.aud === audience ? 'access' : 'exchanged';
  }

  /** @throws AuthError `unavailable` */
  async function isSignedElsewhere(token: string): Promise<boolean> {
    const { kid, typ } = parseHeader(headerOf(token)) ?? {};
    const kind = typ === TYP.refresh ? 'refresh' : 'signing';
    return keyRing.isIncomplete(kind) || (typeof kid === 'string' && keyRing.isInUse(kid));
  }

  const verifier =
    (acceptsExpired: boolean) =>
    async <Each extends Kind>(token: string, ...kinds: Each[]): Promise<OfKind<Each> | TokenRefusal> => {
      let found = recall(token, kinds) ?? read(token, kinds);
      if (found === 'unknown_key') {
        // Another replica may have loaded a new key before this one.
        await keyRing.reload();
        found = read(token, kinds);
        // Other replicas may have read what this one cannot, or has yet to load.
        if (found === 'unknown_key' && (await isSignedElsewhere(token))) throw new AuthError('unavailable');
      }
      if (typeof found === 'string') return refuse(found);
      const now = clock.now();
      if (acceptsExpired || !(hasExpired(found, now) || isTooOld(found, now, lifetimes))) return found;
      if (!clock.isTrusted()) throw new AuthError('unavailable');
      return refuse('expired');
    };

  const verifyAny = verifier(false);
  const verifySigned = verifier(true);

  async function verify<Each extends Kind>(token: string, ...kinds: Each[]) {
    const found = await verifyAny(token, ...kinds);
    const isOthers = typeof found === 'object' && found.type === 'limited' && found.audience !== audience;
    return isOthers ? refuse('audience') : found;
  }

  return {
    sign: (type, claims) => codecs.signers[type].sign(claims),
    signFor: (claims) => codecs.signers.access.signFor(claims),
    signer: (type) => codecs.signers[type],
    limitedSigner() {
      const signer = codecs.signers.limited;
      return { kid: signer.kid, sign: (claims) => signer.signFor(claims) };
    },
    // The kinds that these three take have identities only; the compiler does not resolve that.
    verify: verify as TokenCodec['verify'],
    verifyToEnd: verifyAny as TokenCodec['verifyToEnd'],
    verifySigned: verifySigned as TokenCodec['verifySigned'],
    verifySignedService: (token) => verifySigned(token, 'service'),
    async verifyFor(token, wanted, ...others) {
      const identity = await verifyAny<'exchanged' | 'service' | 'limited'>(
        token,
        'exchanged',
        'service',
        ...others,
      );
      if (typeof identity === 'string') return identity;
      // AUDIENCE is no audience of a service, for limited tokens neither.
      const isOwn = identity.type === 'limited' && wanted === audience;
      if (identity.audience !== wanted || isOwn) return refuse('audience');
      if (identity.type === 'exchanged') return { ...identity, actor: identity.actor ?? '' };
      // A limited token only if it is among `others`; the compiler does not resolve that.
      return identity as ForAudience;
    },
    payloadOf,
  };
}

async function openCodecs(keys: KeySet, names: Names): Promise<Codecs> {
  const signing = keys.signing.flatMap(({ kid, algorithm, privateKey, publicKey }) =>
    (['access', 'llt', 'limited'] as const).map((type) =>
      openCodec({ kid, type, algorithm, secret: { private: privateKey, public: publicKey } }, names),
    ),
  );
  const refresh = keys.refresh.map(({ kid, secret }) =>
    openCodec({ kid, type: 'refresh', algorithm: 'HS256', secret }, names),
  );
  const all = await Promise.all([...signing, ...refresh]);
  const signerOf = (type: TokenType) => {
    const signer = all.find((codec) => codec.type === type);
    if (!signer) throw new Error(`no key signs ${type} tokens`);
    return signer;
  };
  return {
    signers: {
      access: signerOf('access'),
      refresh: signerOf('refresh'),
      llt: signerOf('llt'),
      limited: signerOf('limited'),
    },
    all,
    byHeader: new Map(
      all.map((codec) => [headerOf(codec.sign({ sub: '0', sid: 0, jti: '0', iat: 0 })), codec]),
    ),
  };
}

interface CodecKey {
  kid: string;
  type: TokenType;
  algorithm: Algorithm;
  secret: Buffer | { private: string; public: string };
}

/** One key for one type of token. `node:crypto` signs, with a header that is encoded once (ADR 15). */
async function openCodec({ kid, type, algorithm, secret }: CodecKey, names: Names): Promise<KeyCodec> {
  const { issuer, audience } = names;
  const header = encode(JSON.stringify({ alg: algorithm, typ: TYP[type], kid }));
  const signature = makeSignature(algorithm, Buffer.isBuffer(secret) ? secret : secret.private);
  const signWith = (fixed: object) => {
    const members = JSON.stringify(fixed).slice(1);
    return (claims: Claims | ServiceClaims | LimitedClaims) => {
      const input = `${header}.${encode(`${JSON.stringify(claims).slice(0, -1)},${members}`)}`;
      return `${input}.${signature(input)}`;
    };
  };
  return {
    kid,
    type,
    algorithm,
    sign: signWith({ iss: issuer, aud: audience, ...(type === 'access' && { client_id: CLIENT_ID }) }),
    signFor: signWith({ iss: issuer }),
    check: Buffer.isBuffer(secret)
      ? makeHmacCheck(signature, names)
      : await makePublicKeyCheck(secret.public, algorithm, type, names),
  };
}

/**
 * Checks a token of HS256. @fastify/jwt parses the header again and goes through lists of rules: twice the time of the
 * HMAC itself. `readClaims` checks the other claims. A token with `nbf` is not ours, and the library would obey it.
 */
function makeHmacCheck(signature: (input: string) => string, names: Names): CheckToken {
  const { issuer, audience } = names;
  return (token) => {
    const end = token.lastIndexOf('.');
    const [given, own] = [Buffer.from(token.slice(end + 1)), Buffer.from(signature(token.slice(0, end)))];
    if (given.length !== own.length || !timingSafeEqual(given, own)) return 'signature';
    const claims = parseObject(payloadOf(token));
    const isOurs = claims?.iss === issuer && claims.aud === audience && claims.nbf === undefined;
    return isOurs ? claims : claimRefusal(token, names);
  };
}

/**
 * Checks a token of any other algorithm, with @fastify/jwt. If the plugin had to look up the key of each token, a check
 * would take three times as long. A fixed key cannot be changed after the start. So each key gets the plugin on a
 * Fastify instance of its own, which serves nothing (docs/adr/0015-signing-keys.md).
 */
async function makePublicKeyCheck(
  key: string,
  algorithm: Algorithm,
  type: TokenType,
  names: Names,
): Promise<CheckToken> {
  const { issuer, audience } = names;
  const carrier = fastify();
  await carrier.register(fastifyJwt, {
    secret: { public: key },
    verify: {
      algorithms: [algorithm],
      allowedIss: issuer,
      ...(!hasOtherAudiences(type) && { allowedAud: audience }),
      checkTyp: TYP[type],
      requiredClaims: ['iss', 'aud', 'sub', 'jti', 'iat'],
      ignoreExpiration: true,
    },
  });
  await carrier.ready();
  return (token) => {
    try {
      return carrier.jwt.verify(token);
    } catch (error) {
      if (SIGNATURE_ERRORS.includes((error as { code?: string }).code ?? '')) return 'signature';
      return claimRefusal(token, hasOtherAudiences(type) ? { issuer } : names);
    }
  };
}

/** Whether keys of this type sign tokens whose `aud` is not AUDIENCE, so that the claims are looked at first. */
function hasOtherAudiences(type: TokenType): boolean {
  return type === 'access' || type === 'limited';
}

/**
 * What is wrong with the claims of a token that was refused.
 * @param otherwise if issuer and audience are as expected.
 */
function claimRefusal(
  token: string,
  { issuer, audience }: { issuer: string; audience?: string },
  otherwise: TokenRefusal = 'malformed',
): TokenRefusal {
  const { iss, aud } = parseObject(payloadOf(token)) ?? {};
  if (typeof iss === 'string' && iss !== issuer) return 'issuer';
  return otherwise === 'malformed' && audience !== undefined && typeof aud === 'string' && aud !== audience
    ? 'audience'
    : otherwise;
}

/** The claims of one of our tokens, as JSON. */
function payloadOf(token: string): string {
  const start = token.indexOf('.') + 1;
  return Buffer.from(token.slice(start, token.indexOf('.', start)), 'base64url').toString();
}

function encode(json: string): string {
  return Buffer.from(json).toString('base64url');
}

/** RFC 7515, section 5.1. @param key a PEM private key, or the secret of HS256. */
function makeSignature(algorithm: Algorithm, key: string | Buffer): (input: string) => string {
  if (Buffer.isBuffer(key)) {
    const secret = createSecretKey(key);
    return (input) => createHmac('sha256', secret).update(input).digest('base64url');
  }
  // EdDSA has its own hash. JWS writes an ECDSA signature as two numbers (RFC 7518, section 3.4), not as DER.
  const digest = algorithm === 'EdDSA' ? null : 'sha256';
  const options = { key: createPrivateKey(key), dsaEncoding: 'ieee-p1363' } as const;
  return (input) => sign(digest, Buffer.from(input), options).toString('base64url');
}

/** The identity in the claims of a user's token; null if they are not ours. */
function identityOf<Type extends PresentedType>(claims: RawClaims, type: Type): Identity<Type> | null {
  const identity = readClaims(claims, type);
  if (!identity || typeof claims.aud !== 'string') return null;
  if (type === 'limited') {
    const limits = readLimits(claims);
    return limits && { ...identity, type, ...limits };
  }
  if (type !== 'exchanged') return { ...identity, type };
  const { sub: actor = '' } = (claims.act ?? {}) as { sub?: string };
  return { ...identity, type, audience: claims.aud, actor };
}

function isOf<Each extends Kind>(
  identity: Identity | ServiceBearer,
  kinds: readonly Each[],
): identity is OfKind<Each> & (Identity | ServiceBearer) {
  return (kinds as readonly Kind[]).includes(identity.type);
}

/** The type of the keys that sign such tokens. */
function keyTypeOf(kind: Kind): TokenType {
  return kind === 'exchanged' || kind === 'service' ? 'access' : kind;
}

/** The codec for a token's header, by key id and type; the reason if there is none. */
function find(
  { byHeader, all }: Codecs,
  token: string,
): KeyCodec | Extract<TokenRefusal, 'malformed' | 'type' | 'unknown_key'> {
  const known = byHeader.get(headerOf(token));
  if (known) return known;
  // Either a release with another order of members signed it, or it is not ours.
  const header = parseHeader(headerOf(token));
  if (!header) return 'malformed';
  const ofKey = all.filter(({ kid }) => kid === header.kid);
  if (ofKey.length === 0) return 'unknown_key';
  const codec = ofKey.find(({ type }) => TYP[type] === header.typ);
  if (!codec) return 'type';
  return codec.algorithm === header.alg ? codec : 'malformed';
}

function headerOf(token: string): string {
  return token.slice(0, token.indexOf('.'));
}

function parseHeader(segment: string): Record<string, unknown> | null {
  const header = parseObject(Buffer.from(segment, 'base64url').toString());
  return header && Object.keys(header).every((name) => HEADER_MEMBERS.includes(name)) ? header : null;
}

function parseObject(json: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' ? (value as Record<string, unknown> | null) : null;
  } catch {
    return null;
  }
}
