import type { Client, ClientOptions, TokenStorage } from '../src/main.ts';

/** A row of packages/client/test/vectors.json, which docs/clients.md explains. */
export interface Vector {
  id: string;
  happened: string;
  do: string;
  /** Seconds that it takes, at least and at most, if they are 3 or more. */
  long?: Range;
  stored: Stored;
  atOnce?: true;
  calls: readonly Call[];
  exchanges: readonly Exchange[];
  storage: string;
}

export type Range = readonly [least: number, most: number];

interface Call {
  /** Seconds since the outcome before. */
  after?: number;
  /** By how many seconds the device’s clock is set before the call. */
  clock?: number;
  call: CallName;
  outcome: string;
}

export interface Exchange {
  /** Seconds since the request before. Answers take no time. */
  wait?: Range;
  request: string;
  token: string | null;
  /** What storage holds while the request is sent. */
  storage?: string;
  meanwhile?: Stored;
  answer: Answer;
}

export type Stored = 'none' | 'rubbish' | (Pair & { age: number });
export type Answer = 'lost' | 'silence' | Answered;
type CallName = keyof ReturnType<typeof callsOf>;

export interface Pair {
  session: number;
  generation: number;
  /** Null leaves it out of the answer. */
  user: number | null;
  lifetime: number;
}

export interface Answered {
  status: number;
  headers?: Readonly<Record<string, string>>;
  pair?: Pair;
  problem?: string;
  text?: string;
}

/** Where a row runs. */
export interface Host {
  createClient: (options: ClientOptions) => Client;
  /** The device’s clock. */
  now: () => number;
  /** Milliseconds, by a clock that is never set. */
  passed: () => number;
  /** Lets time pass, and sets the device’s clock: seconds. Only long rows need it. */
  pass?: (seconds: number, clock: number) => Promise<void>;
  respond: (
    status: number,
    headers: Readonly<Record<string, string>>,
    text: string,
  ) => Pick<Response, 'status' | 'headers' | 'text'>;
  isAsynchronous: boolean;
  /** What answers in place of the row, where it can. */
  server?: Server;
}

/** A Latchkey that comes to the states of a row. */
export interface Server {
  /** A pair that it has issued, for storage. */
  pair: (pair: Pair) => Promise<object>;
  /** Undefined if it cannot answer this. */
  answer: (exchange: Exchange, ...request: Parameters<typeof fetch>) => Promise<Response | undefined>;
}

/** What a client did, in the words of the row. */
export interface Seen {
  outcomes: string[];
  exchanges: { request: string; token: string | null; storage?: string }[];
  storage: string;
}

/** Seconds from a request to the next one, and what the row allows. */
export type Waits = { waited: number; allowed: Range }[];

const [AUTH, SERVICE] = ['https://auth.example', 'https://api.example'];
/** The issue of every token, far from the clocks of devices. */
const ISSUED = 1_600_000_000;
const ADA = { username: 'ada', password: 'pascal calculator' };
const REFUSED: Answered = { status: 401, problem: 'invalid_token' };

/** What the row expects. */
export function expectedOf({ calls, exchanges, storage }: Vector): Seen {
  return {
    outcomes: calls.map(({ outcome }) => outcome),
    exchanges: exchanges.map(({ request, token, storage }) => ({
      request,
      token,
      ...(storage && { storage }),
    })),
    storage,
  };
}

/** Plays one row against a client. Needs nothing of Node: pages load this file. */
export async function runVector(row: Vector, host: Host): Promise<{ seen: Seen; waits: Waits }> {
  const slot = makeSlot(host);
  await slot.put(row.stored);
  const exchanges: Seen['exchanges'] = [];
  const waits: Waits = [];
  let sentAt = host.passed();

  // What the row does not expect is refused, so that a client that repeats it comes to an end.
  function answerOf(answer: Answer = REFUSED, signal: AbortSignal | null | undefined): Promise<Response> {
    const rejection = new TypeError('Failed to fetch');
    if (answer === 'silence')
      return new Promise((_resolve, reject) => {
        signal?.addEventListener('abort', () => {
          reject(rejection);
        });
      });
    if (answer === 'lost') return Promise.reject(rejection);
    return Promise.resolve(host.respond(answer.status, answer.headers ?? {}, textOf(answer)) as Response);
  }

  const fetch: typeof globalThis.fetch = async (input, init) => {
    const exchange = row.exchanges[exchanges.length];
    const path = (input as string).replace(AUTH, '').replace(SERVICE, '');
    exchanges.push({
      request: `${init?.method ?? 'GET'} ${path}`,
      token: nameOf(new Headers(init?.headers).get('authorization')),
      ...(exchange?.storage && { storage: slot.name() }),
    });
    waits.push({ waited: (host.passed() - sentAt) / 1000, allowed: exchange?.wait ?? [0, 0] });
    sentAt = host.passed();
    const answer = exchange && (await host.server?.answer(exchange, input, init));
    if (exchange?.meanwhile) await slot.put(exchange.meanwhile);
    return answer ?? answerOf(exchange?.answer, init?.signal);
  };

  const client = host.createClient({ url: AUTH, apis: [SERVICE], storage: slot.storage, fetch });
  const calls = callsOf(client);
  const run = async ({ call, after = 0, clock = 0 }: Call) => {
    if (after || clock) await host.pass?.(after, clock);
    return calls[call]().catch(
      (error: unknown) => `error ${(error as { code?: string }).code ?? String(error)}`,
    );
  };
  const outcomes: string[] = [];
  if (row.atOnce) outcomes.push(...(await Promise.all(row.calls.map(run))));
  else for (const call of row.calls) outcomes.push(await run(call));
  return { seen: { outcomes, exchanges, storage: slot.name() }, waits };
}

/** The calls that rows make, with their outcomes in words. */
function callsOf(client: Client) {
  return {
    accessToken: async () => nameOf(await client.accessToken()) ?? 'no token',
    refresh: async () => `session ${(await client.refresh()).id}`,
    fetch: async () => `status ${(await client.fetch(`${SERVICE}/orders`)).status}`,
    login: async () => `session ${(await client.login(ADA)).id}`,
    signup: async () =>
      `session ${(await client.signup({ ...ADA, name: 'Ada', email: 'ada@example.com' })).id}`,
    logout: async () => {
      await client.logout();
      return 'done';
    },
  };
}

/** A storage of one item, which other tabs change too. */
function makeSlot(host: Host) {
  let item: string | null = null;
  const later = <Value>(value: Value) => (host.isAsynchronous ? Promise.resolve(value) : value);
  const storage: TokenStorage = {
    getItem: () => later(item),
    setItem: (_key, value) => later((item = value)),
    removeItem: () => later((item = null)),
  };
  const slot = {
    storage,
    async put(value: Stored) {
      if (value === 'none') item = null;
      else if (value === 'rubbish') item = '{"access_token":"x.y.z"';
      else {
        const pair = (await host.server?.pair(value)) ?? answerWith(value);
        item = JSON.stringify({ ...pair, stored_at: host.now() - value.age * 1000 });
      }
    },
    name() {
      try {
        const pair = JSON.parse(item ?? '') as { access_token: string };
        return (nameOf(pair.access_token) ?? '').replace('access', 'pair');
      } catch {
        return 'none';
      }
    },
  };
  return slot;
}

function textOf({ status, pair, problem, text = '' }: Answered): string {
  if (pair) return JSON.stringify(answerWith(pair));
  if (problem === undefined) return text;
  const type = `urn:latchkey:error:${problem}`;
  return JSON.stringify({ type, title: problem, status, detail: problem, code: problem, request_id: '3f0c' });
}

/** As Latchkey returns a pair. */
function answerWith({ session, generation, user, lifetime }: Pair) {
  const claims = { sub: String(user), sid: session, gen: generation, iat: ISSUED, exp: ISSUED + lifetime };
  return {
    access_token: unsigned('at+jwt', claims),
    refresh_token: unsigned('rt+jwt', { ...claims, exp: ISSUED + 2_592_000 }),
    ...(user !== null && {
      user: {
        id: user,
        username: `user${user}`,
        name: `User ${user}`,
        created_at: '2026-01-01T00:00:00.000Z',
        roles: [],
      },
    }),
  };
}

function unsigned(typ: string, claims: object): string {
  const part = (value: object) =>
    btoa(JSON.stringify(value)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
  return `${part({ alg: 'none', typ })}.${part(claims)}.`;
}

/** As rows name a token, with or without `Bearer`: `access 1.2` is that of session 1, generation 2. */
function nameOf(token: string | null): string | null {
  if (token === null) return null;
  const [head = '', claims = ''] = token.replace('Bearer ', '').split('.');
  const read = (part: string) => JSON.parse(atob(part.replace(/-/g, '+').replace(/_/g, '/'))) as never;
  const { typ } = read(head) as { typ: string };
  const { sid, gen } = read(claims) as { sid: number; gen: number };
  return `${typ === 'at+jwt' ? 'access' : 'refresh'} ${sid}.${gen}`;
}
