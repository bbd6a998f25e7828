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
  /** Says how far this reader has applied the feed. @returns the seconds after which it may say so again. */
  confirm(position: string, signal?: AbortSignal): Promise<number>;
  /** Says that this reader accepts no more tokens. */
  goodbye(signal?: AbortSignal): Promise<void>;
  /** Opens the feed after the given event. The caller closes it with the signal. */
  feed(lastEventId: string | null, signal: AbortSignal): Promise<Response>;
  /** Renews no token from then on. */
  close(): void;
}

const FEED = '/api/auth/revocations';
const USES = '/api/auth/uses';

/** Seconds. A longer pause would be a mistake. */
const LONGEST_PAUSE = 600;

interface Parts {
  settings: Pick<Settings, 'issuer' | 'audience' | 'url' | 'client' | 'fetch'>;
  /** The id of this reader of the feed, and what it says of itself. */
  reader: { id: string; about: () => object };
  clock: VerifierClock;
  /** Called after each renewal of this client's own token, with null if it worked. */
  onRenew: (failure: VerifierError | null) => void;
  /** Called with what each answer says about Latchkey's clock. */
  onDate?: OnDate | undefined;
}

export function makeLatchkey({ settings, reader, clock, onRenew, onDate }: Parts): Latchkey {
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

  function ofReader(call: {
    method: string;
    body?: string;
    signal?: AbortSignal | undefined;
  }): Promise<Record<string, unknown>> {
    return asClient('revocations', ({ authorization }) =>
      json(`${url}${FEED}/readers/${reader.id}`, {
        ...call,
        headers: { authorization, ...(call.body !== undefined && { 'content-type': 'application/json' }) },
        isNewer: true,
      }),
    );
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
          isNewer: true,
        }),
      );
    },
    async confirm(position, signal) {
      const { after } = await ofReader({
        method: 'PUT',
        body: JSON.stringify({ position, ...reader.about() }),
        signal,
      });
      return typeof after === 'number' && after >= 0 ? Math.min(after, LONGEST_PAUSE) : 1;
    },
    async goodbye(signal) {
      await ofReader({ method: 'DELETE', signal });
    },
    async feed(lastEventId, signal) {
      const headers = {
        accept: 'text/event-stream',
        // A proxy that compresses may hold events back until a block is full.
        'accept-encoding': 'identity',
        // A new connection: a keep-alive connection would lead back to the replica that has just refused us.
        connection: 'close',
        'x-latchkey-reader': reader.id,
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
