// release
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { podmanCluster } from '../k8s/podman.ts';
import { only, variablesOf } from '../k8s/kinds.ts';
import { render, ROOT } from '../k8s/render.ts';
import { secretFolder } from '../k8s/secrets.ts';
import { renderWithAgent } from '../k8s/with-agent.ts';
import { bearer, headerOf } from '../support/client.ts';
import { buildImage, containers, CONTAINER_TOOLS, type Containers } from '../support/container.ts';
import { fakeIssuer, SUBJECT } from '../support/fake-issuer.ts';
import { testFolder } from '../support/folder.ts';
import { containerReady } from '../support/image.ts';
import { latchkey } from '../support/latchkey.ts';
import { logOutOver, refreshOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { freePort } from '../support/free-port.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';

const IMAGE = 'localhost/latchkey:test';

const skip = toolsMissing(...CONTAINER_TOOLS, 'bash', 'catatonit', 'kubectl', 'openssl') || redisMissing;

test(
  'the rendered manifests, started by podman play kube',
  { skip, timeout: 900_000, bail: true },
  async (t) => {
    await buildImage(ROOT, IMAGE);
    const engine = containers(t, IMAGE);
    const database = await testDatabase(t, { migrated: false });
    const redis = testRedis(t);
    const [port, opsPort] = [await freePort(), await freePort()];
    const url = `http://127.0.0.1:${port}`;
    const folder = secretFolder(t);
    folder.run('Secrets', 0);
    for (const name of ['latchkey', 'latchkey-owner'])
      writeFileSync(join(folder.path, name, 'database-url'), database.url);
    writeFileSync(join(folder.path, 'latchkey/redis-url'), redis.url);
    folder.run('Secrets', 2);
    const cluster = podmanCluster(t, engine, {
      image: IMAGE,
      manifests: render('k8s/overlays/production'),
      secrets: folder.applied(),
      env: {
        PORT: String(port),
        OPS_PORT: String(opsPort),
        REDIS_PREFIX: redis.prefix,
        DRAIN_DELAY: '1',
        KEY_PUBLISH_LEAD: '1',
      },
      prefix: `lk-test-${port}-`,
    });
    const readiness = async (id: string) => {
      const answer = await fetch(`http://127.0.0.1:${opsPort}/health/ready`).catch(() => null);
      if (answer) return { status: answer.status, body: await answer.text() };
      const { output } = await engine.podman('inspect', '--format', '{{.State.Running}}', id);
      if (output.trim() !== 'true') throw new Error((await engine.podman('logs', id)).output);
      return { status: 0, body: '' };
    };

    const id = await cluster.start('Deployment', 'latchkey');
    await t.test('a pod is not ready until the Job has migrated', async (t) => {
      await until(async () => (await readiness(id)).body.includes('older than the code'));
      t.equal((await readiness(id)).status, 503);

      const job = await ended(engine, await cluster.start('Job', 'latchkey-migrate'));
      t.match(job, { code: 0, output: 'applied ' });
      await until(async () => (await readiness(id)).status === 200);
    });

    await t.test('serves, hardened as in the manifest', async (t) => {
      const pair = await signUpOver(url);
      t.equal(await verifyOver(url, pair.access_token), 200);
      t.equal((await refreshOver(url, pair.refresh_token)).status, 200);

      const status = await evaluate(engine, id, `fs.readFileSync('/proc/1/status', 'utf8')`);
      t.match(status, /^Uid:\t1000\t1000\t1000\t1000$/m);
      t.match(status, /^CapEff:\t0+$/m);
      t.match(status, /^NoNewPrivs:\t1$/m);
      const write = `try { fs.writeFileSync('/app/x', ''); 'written' } catch ({ code }) { code }`;
      t.equal((await evaluate(engine, id, write)).trim(), 'EROFS');
      t.equal((await evaluate(engine, id, 'process.constrainedMemory() / 1024 ** 2')).trim(), '768');
      const secrets = /postgres:\/\/|redis:\/\/|PRIVATE/;
      t.notMatch(
        await evaluate(engine, id, 'JSON.stringify(process.env)'),
        secrets,
        'no secret in an environment variable',
      );
    });

    await t.test('operators’ commands run in the pod of the CronJob and in a replica', async (t) => {
      const admin = async (...args: string[]) =>
        ended(engine, await cluster.start('CronJob', 'latchkey-admin', args));
      t.match(await admin('doctor'), { code: 0, output: /^ok +memory: .* of 768 MiB$/m });
      t.match(await admin('keys', 'add'), { code: 1, output: /\(EROFS\): .* add a key to the Secret/ });
      const exported = await engine.podman('exec', id, 'node', 'dist/src/cli.js', 'user', 'export');
      t.match(exported, { code: 0, output: /^\{"username":/m });
    });

    await t.test('keys change without a restart, as in the README', async (t) => {
      let pair = await signUpOver(url);
      const kids = () => [pair.access_token, pair.refresh_token].map((token) => headerOf(token).kid);
      const before = kids();
      const aYearOn = new Date(Date.now() + 366 * 86_400_000).toISOString();
      for (const step of [0, 1, 2]) {
        folder.run('New keys, without a restart', step, aYearOn);
        folder.run('Secrets', 2);
        cluster.put(folder.applied());
      }
      await until(async () => {
        await new Promise((resolve) => setTimeout(resolve, 500));
        const answer = await refreshOver(url, pair.refresh_token);
        t.equal(answer.status, 200, 'the session is still good');
        pair = (await answer.json()) as typeof pair;
        return kids().every((kid, i) => kid !== before[i]);
      });
      t.equal(await verifyOver(url, pair.access_token), 200);
      t.match((await engine.podman('inspect', '--format', '{{.RestartCount}}', id)).output, /^0$/m);
      t.equal(await logOutOver(url, pair.access_token), 200);
    });

    await t.test('the CronJob purges', async (t) => {
      const job = await ended(engine, await cluster.start('CronJob', 'latchkey-purge'));
      t.match(job, { code: 0, output: 'purged 0 records' });
    });

    await t.test('the agent of components/agent checks tokens, hardened as in its manifest', async (t) => {
      const { ISSUER = '' } = variablesOf(render('k8s/overlays/production'));
      const issuer = await fakeIssuer(t, { audience: ISSUER });
      const files = testFolder(t);
      chmodSync(files, 0o755);
      writeFileSync(join(files, 'token'), await issuer.sign());
      writeFileSync(join(files, 'keys.json'), JSON.stringify({ keys: issuer.published }));
      const trust = ['--issuer', issuer.url, '--subject', SUBJECT, '--jwks', join(files, 'keys.json')];
      for (const words of [
        ['create', 'orders'],
        ['trust', 'orders', ...trust],
      ])
        t.match(await latchkey(['client', ...words], { DATABASE_URL: database.url }), { code: 0 });

      const [listen, ops] = [`127.0.0.1:${await freePort()}`, await freePort()];
      const manifests = renderWithAgent(t);
      const { spec } = only(manifests, 'Deployment').spec.template;
      // Debian's podman knows neither native sidecars nor projected volumes.
      spec.containers = spec.initContainers ?? [];
      spec.initContainers = [];
      spec.volumes = [{ name: 'latchkey-token', hostPath: { path: files } }];
      for (const container of spec.containers) {
        delete container.restartPolicy;
        for (const variable of container.env ?? [])
          if (variable.name === 'AGENT_OPS_LISTEN') variable.value = `0.0.0.0:${ops}`;
      }
      const beside = podmanCluster(t, engine, {
        image: IMAGE,
        manifests,
        secrets: {},
        prefix: `lk-test-${port}-`,
        env: { LATCHKEY_URL: url, LATCHKEY_AUDIENCE: 'latchkey', AGENT_LISTEN: listen },
      });
      const agent = await beside.start('Deployment', 'orders');
      await containerReady(engine, agent, ops);

      const { access_token: token } = await signUpOver(url);
      const verify = async () => (await fetch(`http://${listen}/verify`, { headers: bearer(token) })).status;
      t.equal(await verify(), 200);
      t.equal(await logOutOver(url, token), 200);
      await until(async () => (await verify()) === 401);

      const status = await evaluate(engine, agent, `fs.readFileSync('/proc/1/status', 'utf8')`);
      t.match(status, /^Uid:\t1000\t1000\t1000\t1000$/m);
      t.match(status, /^CapEff:\t0+$/m);
      const write = `try { fs.writeFileSync('/app/x', ''); 'written' } catch ({ code }) { code }`;
      t.equal((await evaluate(engine, agent, write)).trim(), 'EROFS');
      await engine.podman('stop', '--time', '40', agent);
      t.match((await engine.podman('inspect', '--format', '{{.State.ExitCode}}', agent)).output, /^0$/m);
    });

    await t.test('the pod ends on SIGTERM', async (t) => {
      await engine.podman('stop', '--time', '40', id);
      t.equal((await engine.podman('inspect', '--format', '{{.State.ExitCode}}', id)).output.trim(), '0');
      t.match((await engine.podman('logs', id)).output, '"msg":"stopped"');
    });
  },
);

async function ended(engine: Containers, id: string): Promise<{ code: number; output: string }> {
  const code = Number((await engine.podman('wait', id)).output);
  return { code, output: (await engine.podman('logs', id)).output };
}

/** Evaluates an expression in the container; its image has no shell. */
async function evaluate(engine: Containers, id: string, expression: string): Promise<string> {
  const { code, output } = await engine.podman('exec', id, 'node', '-p', expression);
  if (code !== 0) throw new Error(output);
  return output;
}
