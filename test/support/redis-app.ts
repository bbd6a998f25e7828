import type { LightMyRequestResponse } from 'fastify';
import type { Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { buildTestApp, type TestApp } from './app.ts';
import { call, logIn, refresh, signUp, verify, type Pair } from './client.ts';
import { until } from './until.ts';

/** Milliseconds: the contract's second, doubled because the servers load this machine too. It needs the default timeout. */
const BOUND = 2000;
const DEFAULTS = { REDIS_TIMEOUT: '500' };

/** The service on the test's Redis servers, and a client that follows the protocol throughout. */
export interface Watched extends TestApp {
  /** A key in the cluster slot of the client's user. */
  key: string;
  /** Ends the watch and asserts its results. */
  over(): Promise<void>;
  /** Resolves once the session can be refreshed and verified again. */
  good(): Promise<void>;
  /** Resolves once verify has returned this status since the last recovery. */
  sees(status: number): Promise<void>;
  /** The same for refresh. */
  refreshSees(status: number): Promise<void>;
  /** The number of 503 answers. */
  outages(): number;
  /** Ends another session, with retries until the answer is 200. */
  revokeOne(): Promise<void>;
}

/** Violations: an answer other than success or 503 with Retry-After, or an accepted revoked token. */
export async function watchedApp(t: Test, env: Environment): Promise<Watched> {
  const app = await buildTestApp(t, { env: { ...DEFAULTS, ...env } });
  app.composition.start();
  const first = await signUp(app);
  const { username } = first.user;
  let pair = await logIn(app, username);
  const spare = await Promise.all(Array.from({ length: 6 }, () => logIn(app, username)));
  const revokeOne = async () => {
    const other = spare.pop();
    if (!other) throw new Error('no session is left to end');
    // Retries until the answer is 200. From then on the token must be refused.
    await until(async () => {
      const { statusCode } = await call(app, 'DELETE /api/auth', { token: other.access_token });
      if (statusCode !== 200 && statusCode !== 503) throw new Error(`logout: ${statusCode}`);
      return statusCode === 200;
    });
    revoked.push(other);
  };
  const revoked: Pair[] = [];
  await revokeOne();
  const verified: number[] = [];
  const refreshed: number[] = [];
  const wrong: string[] = [];
  let slowest = 0;
  const watching = new AbortController();
  const timed = async <Answer>(ask: () => Promise<Answer>): Promise<Answer> => {
    const since = performance.now();
    const answer = await ask();
    slowest = Math.max(slowest, performance.now() - since);
    return answer;
  };

  const note = (what: string, statusCode: number, allowed: boolean) => {
    if (!allowed) wrong.push(`${what}: ${statusCode}`);
  };
  const isOutage = ({ statusCode, headers }: LightMyRequestResponse) =>
    statusCode === 503 && headers['retry-after'] !== undefined;

  const watch = (async () => {
    // If a refresh got no answer, the access token may be superseded until the next refresh.
    for (let isAnswered = true; ;) {
      const verification = await timed(() => verify(app, pair.access_token));
      verified.push(verification.statusCode);
      const isSuperseded = verification.statusCode === 401 && !isAnswered;
      const isGood = verification.statusCode === 200;
      note('verify', verification.statusCode, isGood || isOutage(verification) || isSuperseded);

      const rotation = await timed(() => refresh(app, pair.refresh_token));
      refreshed.push(rotation.statusCode);
      isAnswered = rotation.statusCode === 200;
      note('refresh', rotation.statusCode, isAnswered || isOutage(rotation));
      if (isAnswered) pair = rotation.json<Pair>();

      for (const { access_token } of revoked) {
        const answer = await verify(app, access_token);
        note('revoked', answer.statusCode, answer.statusCode === 401 || isOutage(answer));
      }
      if (watching.signal.aborted) return;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  })();
  const stop = () => {
    watching.abort();
    return watch;
  };
  t.teardown(stop);

  // An outage may end before its test waits for it.
  let since = 0;
  const seesIn = (statuses: number[], status: number) => until(() => statuses.slice(since).includes(status));
  const outages = () => [...verified, ...refreshed].filter((status) => status === 503).length;
  return {
    ...app,
    key: `{${first.user.id}}`,
    sees: (status) => seesIn(verified, status),
    refreshSees: (status) => seesIn(refreshed, status),
    outages,
    good: async () => {
      const before = pair;
      await until(() => pair !== before);
      since = verified.length;
      await seesIn(verified, 200);
    },
    async over() {
      await stop();
      t.strictSame(wrong, [], 'answers are success or 503 with Retry-After; no revoked token is accepted');
      t.ok(slowest < BOUND, `the slowest answer took ${Math.round(slowest)} ms`);
      t.comment(
        `${2 * verified.length} requests, ${outages()} of them answered 503, ${revoked.length} revoked tokens`,
      );
    },
    revokeOne,
  };
}
