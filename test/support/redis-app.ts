import type { LightMyRequestResponse } from 'fastify';
import type { Test } from 'tap';
import type { Environment } from '../../src/config.ts';
import { buildTestApp, type TestApp } from './app.ts';
import { call, logIn, refresh, signUp, verify, type Pair } from './client.ts';
import { until } from './until.ts';

/** Milliseconds: the contract's second, and as much again for a machine that is busy with the servers themselves. */
const BOUND = 2000;

/** The service on Redis servers of the test's own, with a client that keeps the protocol's rules all the while. */
export interface Watched extends TestApp {
  /** A name in the cluster's slot of its user. */
  key: string;
  /** Ends the watch, and says what it saw. */
  over(): Promise<void>;
  /** Resolves once the session can be refreshed and verified again. */
  good(): Promise<void>;
  /** Resolves once verify has been answered with this status since all was good. */
  sees(status: number): Promise<void>;
  /** The same for refresh. */
  refreshSees(status: number): Promise<void>;
  /** How many answers were 503. */
  outages(): number;
  /** Ends another session, and goes on until that is said to be done. */
  revokeOne(): Promise<void>;
}

/** What it may never see: an answer that is neither good nor 503 with Retry-After, or a revoked token accepted. */
export async function watchedApp(t: Test, env: Environment): Promise<Watched> {
  const app = await buildTestApp(t, { env });
  app.composition.start();
  const first = await signUp(app);
  const { username } = first.user;
  let pair = await logIn(app, username);
  const spare = await Promise.all(Array.from({ length: 6 }, () => logIn(app, username)));
  const revokeOne = async () => {
    const other = spare.pop();
    if (!other) throw new Error('no session is left to be ended');
    // Until it is said to be done, and from then on it may not be accepted.
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
    // After a refresh without an answer the access token may be superseded, until the next refresh.
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

  // An outage may be over before its test comes to ask for it.
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
      t.strictSame(wrong, [], 'answers are good or 503 with Retry-After; no revoked token is accepted');
      t.ok(slowest < BOUND, `the slowest answer took ${Math.round(slowest)} ms`);
      t.comment(
        `${2 * verified.length} requests, ${outages()} of them answered 503, ${revoked.length} revoked tokens`,
      );
    },
    revokeOne,
  };
}
