import { test } from 'tap';
import { parseArguments } from '../../src/cli/arguments.ts';
import { toolsMissing } from '../support/tools.ts';
import { template } from './chart.ts';
import { only, workloadsOf, type Manifest } from './kinds.ts';
import { makeMounts, variablesIn } from './mounts.ts';
import { isAllowed, type Peer } from './network.ts';
import { scratch } from './render.ts';
import { madeSecrets } from './secrets.ts';

const skip = toolsMissing('helm', 'kubectl', 'bash', 'openssl');

const jobOf = (manifests: Manifest[]) => only(manifests, 'CronJob', 'latchkey-drill').spec.jobTemplate.spec;

test('the CronJob drills what the values name, once, and may end as late as its steps can', { skip }, (t) => {
  const job = jobOf(template('company'));
  const [container] = job.template.spec.containers;
  t.strictSame(container?.command, ['node', 'dist/src/cli.js', 'drill']);
  t.match(parseArguments(['drill', ...(container?.args ?? [])]).values, {
    url: ['http://shop.shop.svc:8080/cart', 'orders=https://orders.example.com/mine'],
    latchkey: 'http://latchkey:3000',
    timeout: '60',
  });
  t.equal(job.backoffLimit, 0, 'a failed drill is a finding');
  t.equal(job.activeDeadlineSeconds, 360);
  t.end();
});

test('its pod reads the URLs of the stores, and neither keys nor secrets of tokens', { skip }, (t) => {
  const manifests = template('tls', '--set', 'drill.enabled=true');
  const { spec } = jobOf(manifests).template;
  const volume = spec.volumes?.find(({ name }) => name === 'secrets')?.secret;
  t.strictSame(
    volume?.items?.map(({ key }) => key),
    ['database-url', 'redis-url', 'database-ca', 'redis-ca'],
  );
  t.strictSame(
    spec.volumes?.map(({ name }) => name),
    ['secrets'],
  );
  const variables = variablesIn(makeMounts(scratch(t), madeSecrets(t)), spec, manifests);
  const files = Object.keys(variables).filter((name) => name.endsWith('_FILE'));
  t.strictSame(files.sort(), ['DATABASE_CA_FILE', 'DATABASE_URL_FILE', 'REDIS_CA_FILE', 'REDIS_URL_FILE']);
  t.end();
});

test(
  'it reaches Latchkey, both stores and what `drill.egress` opens, and nobody reaches it',
  { skip },
  (t) => {
    const manifests = template('company');
    const pods = new Map(
      workloadsOf(manifests).map(({ name, template: { metadata, spec } }): [string, Peer] => {
        const ports = (spec.containers[0]?.ports ?? []).map(
          (port) => [port.name, port.containerPort] as const,
        );
        return [name, { namespace: 'latchkey', labels: metadata.labels, ports: Object.fromEntries(ports) }];
      }),
    );
    const [drill, server, purge] = ['latchkey-drill', 'latchkey', 'latchkey-purge'].map((name) => {
      const pod = pods.get(name);
      if (!pod) throw new Error(`there is no ${name}`);
      return pod;
    }) as [Peer, Peer, Peer];
    const shopPod = {
      namespace: 'shop',
      namespaceLabels: { 'kubernetes.io/metadata.name': 'shop' },
      labels: {},
    };
    const at = (address: string): Peer => ({ namespace: '', address });
    const reaches = (from: Peer, to: Peer, port: number) => isAllowed(manifests, 'latchkey', from, to, port);
    for (const [to, port] of [
      [server, 3000],
      [at('192.0.2.4'), 5432],
      [at('192.0.2.20'), 6379],
      [shopPod, 8080],
    ] as const)
      t.ok(reaches(drill, to, port), `${port}`);
    for (const [to, port] of [
      [server, 9464],
      [at('203.0.113.9'), 443],
      [shopPod, 9090],
    ] as const)
      t.notOk(reaches(drill, to, port), `${port}`);
    t.notOk(reaches(purge, server, 3000), 'so may no other Job');
    t.notOk(reaches(shopPod, drill, 3000));
    t.end();
  },
);

test('without `drill.enabled`, nothing of it is there', { skip }, (t) => {
  const texts = JSON.stringify(template('everything'));
  t.notMatch(texts, 'drill');
  t.end();
});
