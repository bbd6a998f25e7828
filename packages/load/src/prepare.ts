import type { Account, RunAccounts } from './accounts.ts';
import type { Accounts } from './arguments.ts';
import type { Call, ServiceClient } from './exchange.ts';
import type { Judge } from './judge.ts';
import { LoadError } from './load-error.ts';
import type { Pair } from './pair.ts';
import type { Clock } from './schedule.ts';
import type { Reply, Wire } from './wire.ts';

/** A user before the run: signed in with a pair. */
export interface OpenedAccount {
  account: Account;
  pair?: Pair | undefined;
}

/** The device of such a user. */
export interface OpenedDevice extends OpenedAccount {
  name: string;
}

export interface Preparing {
  wire: Pick<Wire, 'send'>;
  /** Waits so many milliseconds. */
  pause: (ms: number) => Promise<unknown>;
  progress: (what: string, done: number, total: number) => void;
  say: (line: string) => void;
  clock: Pick<Clock, 'monotonic'>;
  signal: AbortSignal;
}

/** @param refused why an answer of 4xx ends the run, in words; null to return it. */
type Send = (call: Call, refused: (reply: Reply) => string | null) => Promise<Reply>;

/** A device for each user. The judge learns of the sessions. @throws LoadError for a token without claims */
export function devicesOf(users: readonly OpenedAccount[], judge: Pick<Judge, 'opened'>): OpenedDevice[] {
  return users.map((user, i) => {
    const device = { ...user, name: `load-device-${i}` };
    const { username } = user.account;
    try {
      if (user.pair) judge.opened(device.name, username, user.pair);
    } catch {
      throw new LoadError(`${username} got tokens that cannot be read. Check that a Latchkey is at --url`);
    }
    return device;
  });
}

/** @throws LoadError unless a Latchkey answers there */
export async function findService(url: string, wire: Pick<Wire, 'send'>): Promise<void> {
  const { status, code } = await wire.send({ method: 'GET', path: '/api/auth/verify' });
  if (status === 0)
    throw new LoadError(`${url} does not answer: ${code}. Check --url, and that the service runs`);
  if (status !== 401)
    throw new LoadError(
      `no Latchkey at ${url}: /api/auth/verify without a token is 401 there, not ${code}. Check --url`,
    );
}

/** Requests in flight; a service hashes a few passwords at once, and the rest would only wait. */
const AT_ONCE = 8;
const LONGEST_WAIT = 5;
/** Seconds without success after which the terminal names the refused request, and after which it is given up. */
const SAY_AFTER = 5;
const PATIENCE = 60;
const LIMITED = '429 rate_limited';

/** Does `work` for 0 to `count`, several at once. @throws LoadError if the service refuses, or does not answer */
async function forEach<Result>(
  what: string,
  count: number,
  { wire, pause, progress, say, clock, signal }: Preparing,
  work: (i: number, send: Send) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let [next, done, success, isSaid] = [0, 0, clock.monotonic(), false];
  const failures: Error[] = [];
  const send: Send = async (call, refused) => {
    for (;;) {
      if (failures[0]) throw failures[0];
      if (signal.aborted) throw new LoadError('stopped before the run');
      const reply = await wire.send(call);
      const { status, code, retryAfter } = reply;
      // A proxy may answer 429 too.
      if (status === 200 || code === LIMITED || (status >= 400 && status < 500 && status !== 429)) {
        const why = status === 200 ? null : refused(reply);
        if (why !== null) throw new LoadError(why);
        [success, isSaid] = [clock.monotonic(), false];
        return reply;
      }
      const failing = (clock.monotonic() - success) / 1000;
      const last = `${call.method} ${call.path}: ${code}`;
      if (failing > PATIENCE) throw new LoadError(`no success for ${PATIENCE} s: ${last}`);
      if (failing > SAY_AFTER && !isSaid) say(`waiting for the service, at most ${PATIENCE} s: ${last}`);
      isSaid ||= failing > SAY_AFTER;
      await pause(Math.min(LONGEST_WAIT, Math.max(1, retryAfter)) * 1000);
    }
  };
  const worker = async () => {
    for (let i = next++; i < count; i = next++) {
      results[i] = await work(i, send);
      progress(what, ++done, count);
    }
  };
  const note = (error: unknown) => failures.push(error as Error);
  // All of them: what they add is known then.
  await Promise.all(Array.from({ length: AT_ONCE }, () => worker().catch(note)));
  if (failures[0]) throw failures[0];
  return results;
}

const ALLOW = "add this machine's address to the service's RATE_LIMIT_ALLOW";

/**
 * Gets `users` accounts, and a session for the first `sessions` of them.
 * @param created receives the id of each account that a registered service created.
 * @returns fewer if the limits of signups allow no more
 * @throws LoadError if the service refuses, or does not answer
 */
export async function openAccounts(
  accounts: Accounts,
  { users, sessions }: { users: number; sessions: number },
  { run, created, ...at }: Preparing & { run: RunAccounts; created: (id: number) => void },
): Promise<OpenedAccount[]> {
  if (accounts.from === 'sign-up') return signUpAll(users, run, at);
  return forEach('accounts', users, at, async (i, send) => {
    let account: Account;
    if (accounts.from === 'client') account = await create(i, accounts.client, send);
    else {
      const given = accounts.list[i];
      if (!given) throw new LoadError(`there are only ${accounts.list.length} accounts`);
      account = given;
    }
    return i < sessions ? { account, pair: await logIn(i, account, accounts, send) } : { account };
  });

  async function create(i: number, client: ServiceClient, send: Send): Promise<Account> {
    const account = run.account(i);
    const call = { method: 'POST', path: '/api/users', client, body: account } as const;
    const { status, body } = await send(call, refusedCreation);
    if (status === 200) created((body as { id: number }).id);
    return account;
  }
}

function refusedCreation({ code }: Reply): string | null {
  // An earlier try succeeded, and its answer was lost: no other account has such a name.
  if (code === '400 username_taken') return null;
  if (code === '401 invalid_client')
    return 'the service does not know the client: check LATCHKEY_CLIENT_ID and LATCHKEY_CLIENT_SECRET or LATCHKEY_CLIENT_SECRET_FILE';
  if (code === '403 right_missing')
    return 'the client lacks the right users.write: `latchkey client allow NAME users.write` sets it';
  return (
    `POST /api/users is ${code} at --url: an edge leaves it closed, because it manages every account. ` +
    'Take --sign-up or --accounts FILE to go through the edge, or give --url an address inside it, where services reach Latchkey'
  );
}

async function logIn(i: number, account: Account, accounts: Accounts, send: Send): Promise<Pair> {
  const { username, password } = account;
  const call = { method: 'POST', path: '/api/auth', body: { username, password } } as const;
  const { body } = await send({ ...call, userAgent: `load-device-${i}` }, ({ code }) => {
    if (code === LIMITED) return `the service limits logins: ${ALLOW}`;
    return `${username} cannot log in (${code})${accounts.from === 'list' ? `: ${accounts.hint}` : ''}`;
  });
  return body as Pair;
}

async function signUpAll(users: number, run: RunAccounts, at: Preparing): Promise<OpenedAccount[]> {
  let isLimited = false;
  const opened = await forEach('signups', users, at, async (i, send): Promise<OpenedAccount | null> => {
    if (isLimited) return null;
    const account = run.account(i);
    const call = { method: 'POST', path: '/api/auth/signup', body: account } as const;
    const { status, code, body } = await send({ ...call, userAgent: `load-device-${i}` }, (reply) =>
      reply.code === LIMITED || reply.code === '400 username_taken' ? null : refusedSignup(reply),
    );
    isLimited ||= code === LIMITED;
    return status === 200 ? { account, pair: body as Pair } : null;
  });
  const found = opened.filter((each) => each !== null);
  if (found.length === 0) throw new LoadError(`the service limits signups: wait, or ${ALLOW}`);
  return found;
}

function refusedSignup({ code }: Reply): string {
  return `the service allows no signup (${code}): use a client with the right users.write, or --accounts`;
}

/** Deletes accounts. @throws LoadError if the service refuses, or does not answer */
export async function deleteAccounts(
  ids: readonly number[],
  client: ServiceClient,
  at: Omit<Preparing, 'signal'>,
): Promise<void> {
  // Ctrl-C ended the run, and this comes after it.
  const { signal } = new AbortController();
  await forEach('deleted', ids.length, { ...at, signal }, async (i, send) => {
    const call = { method: 'DELETE', path: `/api/users/${ids[i] ?? 0}`, client } as const;
    await send(call, ({ status, code }) => (status === 404 ? null : `the service refuses (${code})`));
  });
}
