import { KeyObject } from 'node:crypto';
import { compactVerify, decodeJwt, decodeProtectedHeader, errors } from 'jose';
import { ASSERTION_ALGORITHMS, claimsRefusal, type ServiceTrust } from '../../domain/services/assertion.ts';
import type { CheckAssertion, RegisteredServices } from '../../domain/services/authenticate.ts';
import type { ServiceIdentity } from '../../domain/services/registered-service.ts';
import type { Clock } from '../../domain/clock.ts';
import { AuthError } from '../../domain/errors.ts';
import type { Observe } from '../../domain/metrics/observe.ts';
import type { AssertionRefusal } from '../../domain/refusal-reasons.ts';
import { truncate } from '../../domain/truncate.ts';
import { makeCalmLog, type LogLine } from './calm-log.ts';
import type { IssuerKeys, WantedKey } from './issuer-keys.ts';

interface CheckAssertionParts {
  keys: Pick<IssuerKeys, 'keyFor'>;
  services: Pick<RegisteredServices, 'authenticateWorkload'>;
  /** Loads the clients again: an issuer or its key may be new. @throws AuthError `unavailable` */
  refresh: () => Promise<void>;
  /** ISSUER. */
  issuer: string;
  clock: Pick<Clock, 'now' | 'monotonic' | 'isTrusted'>;
  observe: Pick<Observe, 'assertion'>;
  log: { warn: LogLine };
}

/** Characters of an assertion. */
const MAX_LENGTH = 16_384;
/** Of a subject in the log. */
const SHOWN = 256;

/** The one spelling of a JWT. jose also takes padding and white space. */
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]*$/;

/** These refusals depend on the time of day. */
const BY_CLOCK: readonly AssertionRefusal[] = ['expired', 'not_yet_valid', 'too_long'];

/** What an operator should do. */
const TODO: Record<AssertionRefusal, string> = {
  malformed: 'the client must send a JWT of at most 16 KiB with iss, sub and exp',
  algorithm: 'sign with an asymmetric algorithm that fits the key',
  issuer:
    'register the issuer with `latchkey client trust`, exactly as in the claim iss; it may not be ISSUER',
  unknown_key:
    'check the kid against the keys of the issuer; `client trust … --jwks FILE` replaces those of a file',
  signature: 'the token is forged, or the issuer has changed a key and kept its kid',
  audience: 'ask the issuer for tokens whose only audience is ISSUER',
  expired: 'the client must read its token again before it expires; compare the clocks',
  not_yet_valid: 'compare the clocks of the issuer and of this host',
  too_long: 'ask the issuer for tokens that live for at most 24 hours',
  subject: 'register the subject with `latchkey client trust`, exactly as in the claim sub',
  client_id: 'send the client_id of the client that trusts this subject, or none',
  disabled: '`latchkey client enable` lets the client in again',
};

/** What is known of an assertion that is refused. Before its signature is verified, its subject is a stranger's text. */
interface Seen {
  issuer?: string;
  subject?: string;
}

export function makeCheckAssertion(parts: CheckAssertionParts): CheckAssertion {
  const { keys, services, refresh, issuer: audience, clock, observe, log } = parts;
  const warn = makeCalmLog(log, clock);

  /** Looks for the issuer and its key on record before it refuses: `client trust` may just have named them. */
  async function signatureFailure(
    assertion: string,
    { wanted, claims }: ReadAssertion,
  ): Promise<SignatureFailure | null> {
    const failure = async () => {
      const key = await keys.keyFor(claims.iss, wanted);
      if (!(key instanceof KeyObject)) return key;
      return (await isSigned(assertion, key, wanted.alg)) ? null : 'signature';
    };
    if ((await failure()) === null) return null;
    await refresh();
    return failure();
  }

  async function open(
    trust: ServiceTrust,
    serviceId: string | undefined,
  ): Promise<ServiceIdentity | AssertionRefusal> {
    try {
      const identity = await services.authenticateWorkload(trust, null);
      return serviceId === undefined || serviceId === identity.serviceId ? identity : 'client_id';
    } catch (error) {
      const isRefusal = error instanceof AuthError && error.code === 'invalid_client';
      if (!isRefusal) throw error;
      return error.reason === 'disabled' ? 'disabled' : 'subject';
    }
  }

  async function decide(
    assertion: string,
    serviceId: string | undefined,
    seen: Seen,
  ): Promise<ServiceIdentity | AssertionRefusal> {
    const read = readAssertion(assertion);
    if (typeof read === 'string') return read;
    const { claims } = read;
    // A service token for ISSUER would renew itself.
    if (claims.iss === audience) return 'issuer';
    const failure = await signatureFailure(assertion, read);
    if (failure !== 'issuer') seen.issuer = claims.iss;
    if (failure === 'unavailable') throw new AuthError('unavailable');
    if (failure) return failure;
    const refusal = claimsRefusal(claims, { audience, now: clock.now() });
    if (typeof claims.sub !== 'string') return 'malformed';
    seen.subject = truncate(claims.sub, SHOWN);
    if (refusal) return refusal;
    return open({ issuer: claims.iss, subject: claims.sub }, serviceId);
  }

  return async function check(assertion, serviceId) {
    const seen: Seen = {};
    try {
      const decided = await decide(assertion, serviceId, seen);
      if (typeof decided === 'object') {
        observe.assertion('accepted');
        return decided;
      }
      // By the right time the assertion may be good.
      if (BY_CLOCK.includes(decided) && !clock.isTrusted()) throw new AuthError('unavailable');
      observe.assertion(decided);
      warn({ reason: decided, ...seen, todo: TODO[decided] }, "a client's assertion was refused");
      return decided;
    } catch (error) {
      observe.assertion('unavailable');
      throw error;
    }
  };
}

/** `unavailable`: whether the key is the issuer's cannot be told now. */
type SignatureFailure = AssertionRefusal | 'unavailable';

interface ReadAssertion {
  wanted: WantedKey;
  claims: Record<string, unknown> & { iss: string };
}

/**
 * Reads the text that the signature covers. A key in the header, or where to fetch one (`jwk`, `jku`, `x5c`, `x5u`), is
 * not looked at: it would be the sender's.
 */
function readAssertion(assertion: string): ReadAssertion | AssertionRefusal {
  if (assertion.length > MAX_LENGTH || !COMPACT.test(assertion)) return 'malformed';
  let header, claims;
  try {
    header = decodeProtectedHeader(assertion) as Record<string, unknown>;
    claims = decodeJwt(assertion) as Record<string, unknown>;
  } catch {
    return 'malformed';
  }
  const { alg, kid, crit } = header;
  if (typeof alg !== 'string' || !ASSERTION_ALGORITHMS.includes(alg)) return 'algorithm';
  const { iss } = claims;
  // An extension that must be understood (RFC 7515, section 4.1.11): we know none.
  if (crit !== undefined || !(kid === undefined || typeof kid === 'string') || typeof iss !== 'string')
    return 'malformed';
  return { wanted: { kid, alg }, claims: { ...claims, iss } };
}

async function isSigned(assertion: string, key: KeyObject, alg: string): Promise<boolean> {
  try {
    await compactVerify(assertion, key, { algorithms: [alg] });
    return true;
  } catch (error) {
    if (error instanceof errors.JOSEError) return false;
    throw error;
  }
}
