// alone
import { test } from 'tap';
import { Agent, request } from 'undici';
import { bearer } from '../support/client.ts';
import { parseExposition } from '../support/exposition.ts';
import { faultProxy } from '../support/fault-proxy.ts';
import { logOutOver, signUpOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { eventually } from '../support/until.ts';
import { isReady, startReplica } from './harness/replica.ts';

/** Each logs out as often as a token may at once. */
const ACCOUNTS = 100;
const LOGOUTS = 10_000;
/** Milliseconds. Twice that is 4 s below a bound of the histogram: a busy machine needs time for 10,000 answers. */
const DATABASE_TIMEOUT = 3000;
const BOUND = '10';

test('PostgreSQL hangs while 10,000 logouts arrive', async (t) => {
  const proxy = await faultProxy(t, (await testDatabase(t)).url);
  const env = {
    DATABASE_URL: proxy.url,
    DATABASE_TIMEOUT: String(DATABASE_TIMEOUT),
    LOG_REQUESTS: 'none',
    // A busy machine may take longer to read from so many connections.
    REQUEST_TIMEOUT: '120',
  };
  const replica = await startReplica(t, env);
  await isReady(replica);
  const tokens: string[] = [];
  for (let i = 0; i < ACCOUNTS; i++) tokens.push((await signUpOver(replica.url)).access_token);
  const dispatcher = new Agent({
    connections: LOGOUTS,
    connect: { timeout: 0 },
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  t.teardown(() => dispatcher.destroy());

  proxy.set('hang');
  const answers: Record<string, number> = {};
  /** The listener of a busy machine resets connections, which it has not accepted. */
  const logOut = async (token: string): ReturnType<typeof request> => {
    try {
      return await request(`${replica.url}/api/auth`, {
        dispatcher,
        method: 'DELETE',
        headers: bearer(token),
      });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET') throw error;
      return logOut(token);
    }
  };
  await Promise.all(
    Array.from({ length: LOGOUTS }, async (_, i) => {
      const { statusCode, headers, body } = await logOut(tokens[i % ACCOUNTS] ?? '');
      const { code } = (await body.json()) as { code?: string };
      const answer = `${statusCode} ${code ?? ''}${headers['retry-after'] === undefined ? '' : ', later'}`;
      answers[answer] = (answers[answer] ?? 0) + 1;
    }),
  );
  t.strictSame(answers, { '503 unavailable, later': LOGOUTS });

  const metrics = parseExposition(await (await fetch(`${replica.service?.opsUrl ?? ''}/metrics`)).text());
  const sample = (name: string, wanted: Record<string, string>) =>
    metrics
      .get(name)
      ?.samples.find(({ labels }) =>
        Object.entries(wanted).every(([label, value]) => labels[label] === value),
      )?.value;
  const logouts = { method: 'DELETE', route: '/api/auth', status: '503' };
  t.equal(
    sample('http_request_duration_seconds', { ...logouts, le: BOUND }),
    LOGOUTS,
    'each within two timeouts, and what the machine takes to answer all',
  );
  t.ok(Number(sample('latchkey_queue_dropped_total', { queue: 'revocations' })) > LOGOUTS / 2);

  proxy.set('pass');
  await eventually(20, async () => {
    const status = await logOutOver(replica.url, tokens[0] ?? '');
    return status === 200 ? null : `a logout answers ${status}`;
  });
});
