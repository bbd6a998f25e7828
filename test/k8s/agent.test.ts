import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { readConfiguration } from '../../packages/agent/src/configuration.ts';
import { toolsMissing } from '../support/tools.ts';
import { only } from './kinds.ts';
import { violations } from './policy.ts';
import { render, ROOT } from './render.ts';
import { strictly } from './strict.ts';
import { renderWithAgent } from './with-agent.ts';

const skip = toolsMissing('kubectl');

test('the README’s kustomization puts the agent beside a service', { skip }, async (t) => {
  const manifests = renderWithAgent(t);
  for (const [i, problems] of (await strictly(t, manifests)).entries())
    t.strictSame(problems, [], manifests[i]?.kind ?? '');
  const { data } = only(manifests, 'ConfigMap');
  const { initContainers: [agent] = [], volumes: [volume] = [] } = only(manifests, 'Deployment').spec.template
    .spec;
  if (!agent) throw new Error('there is no agent');

  await t.test('as a native sidecar of this version', (t) => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    t.match(agent, { restartPolicy: 'Always', image: `registry.example.com/latchkey:${version}` });
    t.end();
  });

  await t.test('hardened like the server, without help of its pod', (t) => {
    const server = only(render('k8s/base'), 'Deployment').spec.template.spec;
    const hardened = {
      ...server.securityContext,
      ...server.containers[0]?.securityContext,
      fsGroup: undefined,
    };
    t.strictSame({ fsGroup: undefined, ...agent.securityContext }, hardened);
    t.strictSame(
      violations(manifests).filter((problem) => problem.includes(`, ${agent.name}: `)),
      [],
    );
    t.end();
  });

  await t.test('with a token for Latchkey, and all that it needs to start', (t) => {
    const token = volume?.projected?.sources[0]?.serviceAccountToken;
    t.equal(token?.audience, data.LATCHKEY_ISSUER);
    const env = Object.fromEntries((agent.env ?? []).map(({ name, value }) => [name, value]));
    const [mount] = agent.volumeMounts ?? [];
    t.equal(mount?.name, volume?.name);
    t.equal(env.LATCHKEY_CLIENT_TOKEN_FILE, `${mount?.mountPath}/${token?.path}`);

    const file = join(t.testdir(), 'token');
    writeFileSync(file, 'x');
    t.strictSame(agent.envFrom, [{ configMapRef: { name: 'latchkey-agent' } }]);
    const { ops } = readConfiguration({ ...data, ...env, LATCHKEY_CLIENT_TOKEN_FILE: file });
    t.strictSame(ops, { host: '0.0.0.0', port: agent.ports?.[0]?.containerPort });
    t.end();
  });
});

test('the component changes nothing else of a service, and no other', { skip }, (t) => {
  const spec = {
    selector: { matchLabels: { app: 'x' } },
    template: {
      metadata: { labels: { app: 'x' } },
      spec: {
        initContainers: [{ name: 'first', image: 'first:1.0' }],
        containers: [
          { name: 'one', image: 'one:1.0' },
          { name: 'two', image: 'two:1.0' },
        ],
        volumes: [{ name: 'data', emptyDir: {} }],
      },
    },
  };
  const deployment = (name: string, labels = {}) => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, labels },
    spec,
  });
  const manifests = renderWithAgent(t, [
    deployment('other'),
    deployment('labelled', { 'latchkey/agent': 'true' }),
  ]);
  t.strictSame(only(manifests, 'Deployment', 'other').spec, spec);
  const changed = structuredClone(only(manifests, 'Deployment', 'labelled').spec);
  const { initContainers, volumes } = changed.template.spec;
  t.equal(initContainers?.shift()?.name, 'latchkey-agent', 'before what may ask it');
  t.equal(volumes?.shift()?.name, 'latchkey-token');
  t.strictSame(changed, spec);
  t.end();
});
