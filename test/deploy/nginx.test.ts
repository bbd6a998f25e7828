import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { test } from 'tap';
import { Agent, request } from 'undici';
import { startApplication, type Seen } from '../support/application.ts';
import { anAccount, bearer } from '../support/client.ts';
import { startDeployedNginx, startTwoReplicaNginx } from '../support/deployed-nginx.ts';
import { logLines } from '../support/log-lines.ts';
import { logOutOver, signUpOver, sixOperationsOver } from '../support/over-http.ts';
import { packedVerifier } from '../support/packed-packages.ts';
import { testDatabase } from '../support/postgres.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { readyService } from '../support/service.ts';
import { toolsMissing } from '../support/tools.ts';
import { eventually, until } from '../support/until.ts';

test('nginx in front', { skip: toolsMissing('bash', 'nginx') }, async (t) => {
  const service = await readyService(t, {
    TRUST_PROXY: 'loopback',
    // One of these addresses is for the six operations.
    RATE_LIMIT_LOGIN: '2/600',
  });
  const seen: Seen[] = [];
  const upstreams = (app: string) => ({ 'http://latchkey:3000': service.url, 'http://app:8081': app });
  const nginx = await startDeployedNginx(t, 'nginx.conf', upstreams(await startApplication(t, seen)));
  const { url } = nginx;
  const { user, access_token: token } = await signUpOver(url, anAccount());
  t.beforeEach(() => {
    seen.length = 0;
  });

  await t.test('passes the six operations on', async (t) => {
    await sixOperationsOver(t, url);
    t.equal(seen.length, 0);
  });

  await t.test('gives each request an id, and passes no trace of a client on', async (t) => {
    const trace = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, tracestate: 'their=own' };
    const claimed = { 'x-request-id': 'theirs', 'x-forwarded-for': '203.0.113.9', ...trace };
    await fetch(`${url}/orders`, { headers: { ...bearer(token), ...claimed } });
    const { headers } = seen[0] ?? {};
    t.equal(headers?.['x-forwarded-for'], '127.0.0.1');
    for (const name of Object.keys(trace)) t.notOk(headers?.[name], name);
    const id = headers?.['x-request-id'];
    t.not(id, 'theirs');
    const lines = () => logLines(service.log()).filter(({ reqId }) => reqId === id);
    await until(() => lines().length > 0);
    t.match(lines(), [{ route: '/api/auth/verify', status: 200 }], 'one id from nginx to the application');
    t.equal((await fetch(`${url}/_verify`, { headers: bearer(token) })).status, 404, 'its own location');
  });

  await t.test('does not count by an address that a client makes up', async (t) => {
    const logIn = (last: number) =>
      fetch(`${url}/api/auth`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-forwarded-for': `203.0.113.${last}` },
        body: JSON.stringify({ username: 'unknown', password: 'wrong password' }),
      });
    t.strictSame([(await logIn(1)).status, (await logIn(2)).status], [401, 429]);
  });

  await t.test('forwards to the application of compose.yaml', async (t) => {
    const app = await startDeployedNginx(t, 'app.conf');
    const front = await startDeployedNginx(t, 'nginx.conf', upstreams(app.url));
    const answer = await fetch(front.url, { headers: bearer(token) });
    t.match(
      await answer.text(),
      new RegExp(`^user ${user.id}, ${user.username}\nsession \\d+, access\nroles \n$`),
    );
  });

  await t.test('two replicas with TLS: only the API is public, with or without an application', async (t) => {
    const app = await startApplication(t, seen);
    const withApplication = (text: string) =>
      text
        .replaceAll(/# (?=include latchkey.forward-auth|set \$app)/g, '')
        .replace('http://127.0.0.1:8081', app)
        .replace(/location \/ \{[^}]*\}/, '');
    for (const edit of [undefined, withApplication]) {
      const front = await startTwoReplicaNginx(t, [service.url, 'http://127.0.0.1:1'], edit);
      const agent = new Agent({ connect: { ca: front.ca } });
      t.teardown(() => agent.close());
      const ask = (path: string) =>
        request(front.url + path, { dispatcher: agent, headers: bearer(token) }).then(async (answer) => {
          await answer.body.dump();
          return answer.statusCode;
        });
      // Each second connection begins at the replica that is down for good.
      for (let i = 0; i < 8; i++) t.equal(await ask('/api/auth/verify'), 200);
      t.equal(await ask('/orders'), edit ? 201 : 404);
      if (edit) {
        // Node refuses the header, also after a try at the replica that is down.
        const unreadable = Array.from({ length: 8 }, () => statusOfUnreadable(front));
        t.strictSame(new Set(await Promise.all(unreadable)), new Set(['400']));
      }
      if (!edit) t.strictSame([await ask('/metrics'), await ask('/health/ready')], [404, 404]);
    }
    t.match(seen, [{ url: '/orders', headers: { 'x-auth-user': String(user.id) } }]);
  });

  await t.test('logs a failed try, without its path', async (t) => {
    await service.stop();
    await fetch(`${url}/orders`, { headers: bearer(token) });
    const host = new URL(service.url).host.replaceAll('.', '\\.');
    const failure = `GET 502 upstream=${host} upstream_status=502 request_id=[0-9a-f]{32}`;
    t.match(nginx.log(), new RegExp(`^\\S+ ${failure}\n$`));
  });
});

const mayCompress = { skip: toolsMissing('bash', 'nginx') };

test(
  'behind an nginx that compresses everything, the verifier hears events at once',
  mayCompress,
  async (t) => {
    const { url: database } = await testDatabase(t);
    const issuer = 'https://id.example.com';
    const service = await readyService(t, {
      DATABASE_URL: database,
      ISSUER: issuer,
      TRUST_PROXY: 'loopback',
    });
    const include = 'include latchkey/http.conf;';
    const compress =
      'gzip on; gzip_types *; gzip_min_length 0; gzip_proxied any; gzip_buffers 4 64k; proxy_ignore_headers X-Accel-Buffering;';
    const { url } = await startDeployedNginx(t, 'nginx.conf', {
      'http://latchkey:3000': service.url,
      [include]: `${compress} ${include}`,
    });
    const client = await aRegisteredService(database, 'orders');
    const compressed = fetch(`${url}/api/auth/revocations`, {
      headers: { ...basic(client), 'accept-encoding': 'gzip' },
      signal: AbortSignal.timeout(2000),
    });
    await t.rejects(compressed, { name: 'TimeoutError' }, 'it holds back what it may compress');

    const { createVerifier } = await packedVerifier(t);
    const verifier = createVerifier({
      issuer,
      audience: 'latchkey',
      client: { id: client.serviceId, secret: client.secret },
      url,
      maxStaleness: 2,
      whenStale: 'refuse',
    });
    t.teardown(() => verifier.close());
    const { access_token: token } = await signUpOver(url);
    const answers = (expected: string) =>
      eventually(3, async () => {
        const code = await verifier.verify(token).then(
          () => 'good',
          (error: unknown) => (error as { code: string }).code,
        );
        return code === expected ? null : code;
      });
    await answers('good');
    // Longer than `maxStaleness`: only heartbeats keep it able to answer.
    await sleep(3000);
    t.equal((await verifier.verify(token)).tokenType, 'access');
    t.equal(await logOutOver(url, token), 200);
    await answers('invalid_token');
  },
);

/** The status of a request whose `Authorization` has a control character. */
function statusOfUnreadable({ url, ca }: { url: string; ca: string }): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    let received = '';
    const socket = connect({ host: '127.0.0.1', port: Number(new URL(url).port), ca }, () =>
      socket.write(
        'GET /orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \x01\r\nConnection: close\r\n\r\n',
      ),
    );
    socket.on('data', (chunk: Buffer) => (received += chunk.toString()));
    socket.on('error', reject);
    socket.on('close', () => {
      resolve(/^HTTP\/1\.1 (\d{3})/.exec(received)?.[1]);
    });
  });
}
