import type { Caller } from '../../test/support/generator/load.ts';
import {
  jsonRequest,
  nextRefresh,
  requestText,
  verifyRequest,
} from '../../test/support/generator/requests.ts';
import { PASSWORD, type Population } from '../bench/population.ts';

/** A cold refresh is the first one of a session that Redis does not hold. */
export const OPERATIONS = ['verify', 'refresh', 'cold refresh', 'login'] as const;
export type Operation = (typeof OPERATIONS)[number];
/** A first verify is that of a token that no replica has seen before. Other verifies repeat the same tokens. */
export type Measured = Operation | 'first verify';

/** More than a replica keeps of verified tokens, so each verify of this many in turn checks a signature. */
const MOST_TOKENS = 40_000;
/** A prime: cold sessions take turns in no order of the tables. */
const STRIDE = 1_000_003;
/** Of these, two are hashed at once, and the others wait. */
const HASHING_CONNECTIONS = 4;

/** Makes the next request, and receives its answer. */
interface Source {
  next(): { request: string; answered?: (body: string) => void };
}

/**
 * Requests of one kind over a population. The sessions take turns, so each has at most one request in flight.
 * @param options.among sessions with this remainder, by 2: a refresh ends the access tokens that others would verify.
 * @param options.most tokens for first verifies.
 */
export function sourceOf(
  operation: Measured,
  population: Population,
  { among, most = 0 }: { among?: 0 | 1 | undefined; most?: number } = {},
): Source {
  const { sessions } = population;
  const count = Math.min(among === undefined ? sessions : Math.floor(sessions / 2), MOST_TOKENS);
  // Spread over all sessions.
  const numbers = Array.from({ length: count }, (_, i) =>
    among === undefined
      ? Math.floor((i * sessions) / count)
      : 2 * Math.floor((i * sessions) / (2 * count)) + among,
  );
  let at = 0;
  switch (operation) {
    case 'verify': {
      const requests = numbers.map((number) => verifyRequest(population.mint('access', number)));
      return { next: () => ({ request: requests[at++ % count] ?? '' }) };
    }
    case 'first verify': {
      // A signature is random, so each token of a session is another one.
      const requests = Array.from({ length: most }, (_, i) =>
        verifyRequest(population.mint('access', i % sessions)),
      );
      return {
        next: () => {
          const request = requests[at++];
          if (request === undefined)
            throw new Error('no new token is left: raise SCALE_NEW, or lower SCALE_SECONDS or SCALE_ROUNDS');
          return { request };
        },
      };
    }
    case 'refresh': {
      // In turn, from `at` on. A session is added again when its refresh has been answered.
      const waiting = numbers.map((number) =>
        requestText('GET /api/auth/refresh', { token: population.mint('refresh', number) }),
      );
      return {
        next: () => {
          const request = waiting[at++] ?? '';
          return { request, answered: (body) => waiting.push(nextRefresh(request, body)) };
        },
      };
    }
    case 'cold refresh': {
      const { sessions: first, cold } = population;
      return {
        next: () => {
          if (at === cold) throw new Error('no cold session is left: lower SCALE_SECONDS or SCALE_ROUNDS');
          return {
            request: requestText('GET /api/auth/refresh', {
              token: population.mint('refresh', first + ((at++ * STRIDE) % cold)),
            }),
          };
        },
      };
    }
    case 'login': {
      const { names } = population;
      return {
        next: () => ({
          request: jsonRequest('POST /api/auth', {
            username: names[at++ % names.length],
            password: PASSWORD,
          }),
        }),
      };
    }
  }
}

/** A closed loop over these sources: each request comes from the source that `choose` names. */
export function callersOf(connections: number, choose: () => Source): Caller[] {
  return Array.from({ length: connections }, () => {
    let receive: ((body: string) => void) | undefined;
    return {
      next: () => {
        const { request, answered } = choose().next();
        receive = answered;
        return request;
      },
      answered: (body: string) => receive?.(body),
    };
  });
}

export function connectionsOf(operation: Measured, connections: number): number {
  return operation === 'login' ? Math.min(connections, HASHING_CONNECTIONS) : connections;
}
