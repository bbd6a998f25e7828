import { randomBytes } from 'node:crypto';
import { loadSettings, type Environment } from '../config/config.ts';
import { isAudience } from '../domain/audience.ts';
import { LONGEST_WAIT, type EnforcementAnswer } from '../domain/enforcement/enforcement.ts';
import { ignoreOutage } from '../domain/errors.ts';
import { makeScryptHasher, type ScryptCost } from '../infra/crypto/scrypt-hasher.ts';
import { findMarked, makeAccountStore } from '../infra/postgres/account-store.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import { accountSettings, NO_NAMES } from './account-settings.ts';
import { UsageError, type Values } from './arguments.ts';
import type { Command, Outcome } from './command.ts';
import {
  makeRequests,
  NotRun,
  refuseStopped,
  shown,
  type Issued,
  type Requests,
  type Target,
} from './drill-requests.ts';
import { countAll, describeAnswer, forMachines, withEnforcement, type Ask } from './enforcement.ts';

/**
 * The external id of a drill's account is this and its username. Only operators and services that manage accounts can
 * write one, and anybody may sign up under such a username.
 */
const MARK = 'latchkey-drill:';
/** Seconds after which an account that a drill has left behind is deleted: longer than a drill takes. */
const LEFT_AFTER = 3600;
/** Seconds. */
const LONGEST = 600;

interface Plan {
  targets: Target[];
  latchkey: URL;
  /** Milliseconds. */
  timeout: number;
}

interface Measured extends Target {
  before: number;
  /** The last answer; null if there was none. */
  after: number | null;
  /** Milliseconds from the logout until the answer was 401; null if it was not. */
  refused: number | null;
}

/** What a drill has found. */
type Findings =
  | { verdict: 'not_run'; reason: string }
  | { verdict: 'passed' | 'failed'; urls: Measured[]; answer: EnforcementAnswer; enforced: number | null };

/** `latchkey drill`: ends a token of an account of its own, and measures until everybody refuses it. */
export const run: Command = async ({ env, words, values, note, stopped }) => {
  if (words.length > 0) throw new UsageError('drill takes options only');
  const plan = planOf(values, env);
  const { cost } = accountSettings(env);
  return withEnforcement(env, async ({ postgres, ask, hurry }) => {
    const stop = stopped();
    stop.addEventListener('abort', hurry);
    await deleteLeft(postgres);
    const account = await addAccount(postgres, cost);
    note({ userId: account.id, urls: plan.targets.length });
    let isDeleted: boolean;
    let findings: Findings;
    try {
      findings = await drill(plan, account, ask, stop);
    } finally {
      isDeleted = await deleteAccount(postgres, account.id);
      note({ deleted: isDeleted });
    }
    return outcomeOf(findings, account.id, isDeleted);
  });
};

/** @throws UsageError */
function planOf({ url: urls = [], latchkey, timeout }: Values, env: Environment): Plan {
  const seconds = /^\d{1,3}$/.test(timeout) ? Number(timeout) : 0;
  if (seconds < 1 || seconds > LONGEST)
    throw new UsageError(`--timeout is a number of seconds from 1 to ${LONGEST}`);
  const base = latchkey ?? loadSettings(env, 'ISSUER').ISSUER;
  return {
    targets: urls.map(targetOf),
    latchkey: addressOf(base.endsWith('/') ? base : `${base}/`, '--latchkey'),
    timeout: seconds * 1000,
  };
}

function targetOf(given: string): Target {
  const [, audience = null, url = ''] = /^(?:([^=/]*)=)?(.*)$/s.exec(given) ?? [];
  if (audience !== null && !isAudience(audience))
    throw new UsageError('--url is URL, or AUDIENCE=URL with a registered audience');
  return { url: addressOf(url, '--url'), audience };
}

/** The value is not repeated: it may hold a password. */
function addressOf(text: string, option: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.username !== '' || url.password !== '')
    throw new UsageError(`${option} needs a URL with http or https, and without a user`);
  return url;
}

interface Account {
  id: number;
  username: string;
  password: string;
}

/** It is not announced in the feed, so that no service makes something for it. */
async function addAccount(postgres: Postgres, cost: ScryptCost): Promise<Account> {
  const username = `latchkey-drill-${randomBytes(10).toString('hex')}`;
  const password = randomBytes(32).toString('base64url');
  const { id } = await makeAccountStore(postgres, NO_NAMES).add({
    username,
    name: 'A drill',
    // Of a domain that nobody has (RFC 2606), and not verified, so that no notice is sent there.
    email: `${username}@drill.invalid`,
    externalId: `${MARK}${username}`,
    roles: [],
    passwordHash: await makeScryptHasher(cost).hash(password),
  });
  return { id, username, password };
}

/** @returns false if PostgreSQL is away: the next drill deletes it. */
async function deleteAccount(postgres: Postgres, id: number): Promise<boolean> {
  try {
    // Its names are random, so that none needs to be reserved.
    await makeAccountStore(postgres, NO_NAMES).delete({ id }, Date.now(), { grace: 0, hashes: () => [] });
    return true;
  } catch (error) {
    ignoreOutage(error);
    return false;
  }
}

/** Those of drills that were killed. */
async function deleteLeft(postgres: Postgres): Promise<void> {
  for (const id of await findMarked(postgres.prisma, MARK, LEFT_AFTER)) await deleteAccount(postgres, id);
}

async function drill(plan: Plan, account: Account, ask: Ask, stop: AbortSignal): Promise<Findings> {
  const over = new AbortController();
  try {
    const requests = makeRequests(plan.latchkey, AbortSignal.any([stop, over.signal]));
    return await measure(plan, account, ask, requests, stop);
  } catch (error) {
    if (!(error instanceof NotRun)) throw error;
    return { verdict: 'not_run', reason: error.message };
  } finally {
    // After an outage, nothing is asked any more.
    over.abort();
  }
}

/** @throws NotRun, AuthError `unavailable` */
async function measure(
  { targets, timeout }: Plan,
  { id, username, password }: Account,
  ask: Ask,
  requests: Requests,
  stop: AbortSignal,
): Promise<Findings> {
  const user = await requests.logIn(username, password);
  const tried = await Promise.all(
    targets.map(async (target) => {
      const own = target.audience === null ? user : await requests.exchange(user.token, target.audience);
      return { ...target, own, before: await requests.statusBefore(target, own.token) };
    }),
  );
  const from = performance.now();
  const since = () => Math.round(performance.now() - from);
  // What a service or a reader refuses because the token has expired, it may have accepted after the logout.
  const endOf = ({ goodUntil }: Issued) => Math.min(from + timeout, goodUntil);
  await requests.logOut(user.token);
  const [urls, [answer, enforced]] = await Promise.all([
    Promise.all(
      tried.map(async ({ own, ...target }): Promise<Measured> => {
        const after = await requests.untilRefused(target, own.token, endOf(own));
        const isRefused = after === 401 && performance.now() < own.goodUntil;
        return { ...target, after, refused: isRefused ? since() : null };
      }),
    ),
    untilDone(ask, id, endOf(user), stop).then((asked) => [asked, asked.done ? since() : null] as const),
  ]);
  if (urls.length === 0 && countAll(answer.counts) === 0)
    throw new NotRun('no --url is given and no service confirms, so nothing was measured');
  const isPassed = answer.done && urls.every(({ refused }) => refused !== null);
  return { verdict: isPassed ? 'passed' : 'failed', urls, answer, enforced };
}

/** @returns the last answer before the deadline, which is the first that is done. */
async function untilDone(
  ask: Ask,
  user: number,
  deadline: number,
  stop: AbortSignal,
): Promise<EnforcementAnswer> {
  for (;;) {
    const left = Math.ceil((deadline - performance.now()) / 1000);
    const answer = await ask({ user }, Math.max(0, Math.min(LONGEST_WAIT, left)));
    refuseStopped(stop);
    if (answer.done || performance.now() >= deadline) return answer;
  }
}

function outcomeOf(findings: Findings, user: number, deleted: boolean): Outcome {
  const { verdict } = findings;
  const left = deleted ? [] : [`the account ${user} could not be deleted: the next drill does that`];
  return {
    result: { ...resultOf(findings), user, deleted },
    text: [...describe(findings), ...left].join('\n'),
    audited: { verdict },
    isWell: verdict === 'passed' && deleted,
  };
}

function resultOf(findings: Findings) {
  if (findings.verdict === 'not_run') return findings;
  const { verdict, urls, answer, enforced } = findings;
  return {
    verdict,
    urls: urls.map((each) => ({
      url: shown(each),
      audience: each.audience,
      before: each.before,
      after: each.after,
      refused_after_ms: each.refused,
    })),
    enforced_after_ms: enforced,
    ...forMachines(answer),
  };
}

function describe(findings: Findings): string[] {
  if (findings.verdict === 'not_run') return [`not run: ${findings.reason}`];
  const { verdict, urls, answer, enforced } = findings;
  const [first = '', ...others] = describeAnswer(answer);
  return [
    verdict === 'passed' ? 'passed' : 'failed: the token was still accepted, or may have been',
    ...urls.map((each) => {
      const { before, after, refused } = each;
      const last =
        after === 401 ? '401 only when it may have expired' : `still ${after ?? 'no answer'} at the end`;
      const end = refused === null ? last : `401 after ${refused} ms`;
      return `  ${shown(each)}  ${before}, then ${end}`;
    }),
    enforced === null ? first : `${first}, after ${enforced} ms`,
    ...others,
  ];
}
