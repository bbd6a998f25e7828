import type { OnDate, VerifierClock } from './clock.ts';
import { makeConnection } from './connection.ts';
import type { Settings } from './options.ts';
import { unavailable, type VerifierError } from './verifier-error.ts';

/** What the verifier asks of Latchkey. Each request fails with `VerifierError` `unavailable`. */
export interface Latchkey {
  /** The JWK Set (RFC 7517), unchecked. */
  keys(): Promise<unknown>;
  /**
   * RFC 7662: whether the token is good right now, and its claims.
   * @param isLimited whether it is a limited token, about which only a client with that right may ask.
   */
  introspect(token: string, isLimited?: boolean): Promise<Record<string, unknown>>;
  /** Says that these long-lived and limited tokens, at most 500, have been used. */
  reportUses(tokens: readonly number[]): Promise<void>;
  /** Opens the feed after the given event. The caller closes it with the signal. */
  feed(lastEventId: string | null, signal: AbortSignal): Promise<Response>;
  /** Renews no token from then on. */
  close(): void;
}

const FEED = '/api/auth/revocations';
const USES = '/api/auth/uses';

interface Parts {
  settings: Pick<Settings, 'issuer' | 'audience' | 'url' | 'client' | 'fetch'>;
  clock: VerifierClock;
  /** Called after each renewal of this client's own token, with null if it worked. */
  onRenew: (failure: VerifierError | null) => void;
  /** Called with what each answer says about Latchkey's clock. */
  onDate?: OnDate | undefined;
}

export function makeLatchkey({ settings, clock, onRenew, onDate }: Parts): Latchkey {
  const { audience, url } = settings;
  const { endpoints, json, send, asClient, close } = makeConnection({
    settings,
    clock,
    onRenew,
    onDate,
  });

  /** To a client of another audience every token is inactive. That is no fault of the tokens. */
  function checkAudience(answered: Headers): void {
    const found = answered.get('x-latchkey-audience');
    if (found === encodeURI(audience)) return;
    throw unavailable('configuration', 'the client may ask about tokens for another audience only', {
      option: 'audience',
      expected: audience,
      found,
      words: ['the setting is', "the client's is"],
    });
  }

  /** To a client without the right every limited token is inactive. */
  function checkRight(answered: Headers): void {
    if (answered.get('x-latchkey-limited') === 'true') return;
    throw unavailable('configuration', 'the client has no right `limited`', { option: 'client' });
  }

  return {
    async keys() {
      return json((await endpoints()).keys);
    },
    async introspect(token, isLimited = false) {
      const { introspection } = await endpoints();
      const body = new URLSearchParams({ token });
      return asClient('introspect', (headers, mistakes) =>
        json(introspection, {
          method: 'POST',
          body,
          headers,
          mistakes,
          check(answered) {
            checkAudience(answered);
            if (isLimited) checkRight(answered);
          },
        }),
      );
    },
    async reportUses(tokens) {
      const body = JSON.stringify({ tokens });
      await asClient('introspect', ({ authorization }, mistakes) =>
        json(url + USES, {
          method: 'POST',
          body,
          headers: { authorization, 'content-type': 'application/json' },
          mistakes,
        }),
      );
    },
    async feed(lastEventId, signal) {
      const headers = {
        accept: 'text/event-stream',
        // A proxy that compresses may hold events back until a block is full.
        'accept-encoding': 'identity',
        // A new connection: a keep-alive connection would lead back to the replica that has just refused us.
        connection: 'close',
        ...(lastEventId !== null && { 'last-event-id': lastEventId }),
      };
      const response = await asClient('revocations', (authorization, mistakes) =>
        send(url + FEED, { headers: { ...authorization, ...headers }, signal }, { mistakes }),
      );
      const type = response.headers.get('content-type') ?? '';
      if (type.startsWith('text/event-stream')) return response;
      await response.body?.cancel().catch(() => undefined);
      throw unavailable('unexpected_answer', `${FEED} did not return what it should`, {
        option: 'url',
        expected: 'text/event-stream',
        found: type,
      });
    },
    close,
  };
}
