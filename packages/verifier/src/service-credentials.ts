import type { VerifierClock } from './clock.ts';
import type { Credentials } from './credentials.ts';
import { setBackgroundTimeout, type Timer } from './runtime.ts';
import { reasonOf, unavailable, VerifierError } from './verifier-error.ts';

interface Parts {
  /** The service's own function: it may return anything. */
  assertion: () => unknown;
  /** Exchanges the assertion for a token. @returns the answer (RFC 6749, section 5.1), unchecked */
  request: (assertion: string) => Promise<Record<string, unknown>>;
  clock: Pick<VerifierClock, 'monotonic'>;
  /** Called after each renewal in the background, with null if it worked. */
  onRenew: (failure: VerifierError | null) => void;
  /** Milliseconds. */
  times?: Partial<typeof TIMES>;
}

const TIMES = {
  /** How long the assertion may take: requests wait for it. */
  patience: 2000,
  /** From a failed renewal to the next. */
  pause: 5000,
};

/** Seconds: no token of Latchkey lives longer, and a longer timer would fire at once. */
const LONGEST = 86_400;

interface Present {
  authorization: string;
  /** Milliseconds of the monotonic clock. */
  expires: number;
}

/** The part of a token's life after which it is renewed. The rest is for failures: the token serves meanwhile. */
const RENEW_AFTER = 2 / 3;

/** A client that holds no secret. It gets a token of its own for an assertion, and authenticates with that. */
export function makeServiceCredentials(parts: Parts): Credentials {
  const { assertion, request, clock, onRenew } = parts;
  const { patience, pause } = { ...TIMES, ...parts.times };
  let present: Present | null = null;
  let getting: Promise<string> | null = null;
  let timer: Timer | undefined;
  let isClosed = false;

  const isGood = () => present !== null && clock.monotonic() < present.expires;

  async function get(): Promise<string> {
    const asked = clock.monotonic();
    const { token, lifetime } = readIssued(await request(await readAssertion(assertion, patience)));
    present = { authorization: `Bearer ${token}`, expires: asked + lifetime };
    renewIn(lifetime * RENEW_AFTER);
    return present.authorization;
  }

  /** Concurrent calls share one request. */
  function getOnce(): Promise<string> {
    return (getting ??= get().finally(() => {
      getting = null;
    }));
  }

  function renewIn(ms: number): void {
    clearTimeout(timer);
    if (!isClosed) timer = setBackgroundTimeout(() => void renew(), ms);
  }

  async function renew(): Promise<void> {
    const failure = await getOnce().then(
      () => null,
      (error: unknown) => asFailure(error),
    );
    onRenew(failure);
    // Without a good token, the next request gets one.
    if (failure && isGood()) renewIn(pause);
  }

  return {
    authorization: () => (present && isGood() ? present.authorization : getOnce()),
    refused(authorization) {
      // Another request may have replaced it.
      if (present?.authorization === authorization) present = null;
      return true;
    },
    mistake: 'Latchkey refuses the token that it gave this client',
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

/** @throws VerifierError that holds nothing of the assertion, and no message of the service: that might hold it. */
export async function readAssertion(
  assertion: () => unknown,
  patience: number = TIMES.patience,
): Promise<string> {
  let text: unknown;
  let timer: Timer | undefined;
  try {
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(reject, patience, new DOMException('', 'TimeoutError'));
    });
    text = await Promise.race([assertion(), late]);
  } catch (error) {
    throw unavailable('fault', `client.assertion failed: ${reasonOf(error)}`, { option: 'client' });
  } finally {
    clearTimeout(timer);
  }
  if (typeof text === 'string' && text.trim() !== '') return text.trim();
  throw unavailable('configuration', 'client.assertion returned no text', { option: 'client' });
}

/** RFC 6749, section 5.1. @returns the token, and its lifetime in milliseconds. @throws VerifierError `unavailable` */
export function readIssued(answer: Record<string, unknown>): { token: string; lifetime: number } {
  const { access_token: token, token_type: type, expires_in: seconds } = answer;
  const isBearer = typeof type === 'string' && type.toLowerCase() === 'bearer';
  const isToken = typeof token === 'string' && /^[\w.~+/=-]+$/.test(token);
  if (isToken && isBearer && typeof seconds === 'number' && seconds > 0)
    return { token, lifetime: Math.min(seconds, LONGEST) * 1000 };
  throw unavailable('unexpected_answer', 'the token endpoint returned a malformed answer');
}

function asFailure(error: unknown): VerifierError {
  return error instanceof VerifierError ? error : unavailable('fault', (error as Error).name);
}
