import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { COSTS } from '../../src/domain/sizing/costs.ts';
import { chartsOf } from './charts.ts';
import { committedFigures, pageWith } from './page.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;
const document = committedFigures();

test('docs/scaling.md and its charts show the committed figures', async (t) => {
  const page = readFileSync(join(ROOT, 'docs/scaling.md'), 'utf8');
  t.equal(await pageWith(page, document), page);
  const charts = chartsOf(document);
  t.equal(charts.length, 4);
  for (const [name, svg] of charts) t.equal(readFileSync(join(ROOT, 'docs/images', name), 'utf8'), svg, name);
});

test('the costs of the plan are the committed figures', (t) => {
  const of = (operation: string, sessions: number) => {
    const all = [
      ...(document.replicas?.figures ?? []).filter(({ replicas }) => replicas === 1),
      ...(document.sessions?.figures ?? []).slice(1).flatMap(({ figures }) => figures),
    ];
    const found = all.find((figure) => figure.operation === operation && figure.sessions === sessions);
    if (!found) throw new Error(`no figures of ${operation} with ${sessions} sessions`);
    return found;
  };
  const { replica, redis, postgres, idle, bytes } = COSTS;
  const isNear = (cost: number, { median }: { median: number }, what: string) =>
    t.ok(Math.abs(cost / median - 1) < 0.03, `${what}: ${cost}, measured ${median}`);
  isNear(replica.verifyKnown, of('verify', 1000).micros, 'a verify of a known token');
  isNear(replica.verifyNew, of('verify', 100_000).micros, 'a verify of a new token');
  isNear(replica.refresh, of('refresh', 100_000).micros, 'a refresh');
  isNear(replica.login, of('login', 1000).micros, 'a login');
  isNear(redis.verify, of('verify', 100_000).redisMicros, 'a verify in Redis');
  isNear(redis.refresh, of('refresh', 100_000).redisMicros, 'a refresh in Redis');
  isNear(redis.login, of('login', 1000).redisMicros, 'a login in Redis');
  isNear(postgres.refresh, of('refresh', 100_000).postgresMicros, 'a refresh in PostgreSQL');
  isNear(postgres.login, of('login', 1000).postgresMicros, 'a login in PostgreSQL');
  const cold = document.cold?.figures[0];
  if (!cold) throw new Error('no figures of cold refreshes');
  isNear(replica.coldRefresh, cold.micros, 'a cold refresh');
  isNear(redis.coldRefresh, cold.redisMicros, 'a cold refresh in Redis');
  isNear(postgres.coldRefresh, cold.postgresMicros, 'a cold refresh in PostgreSQL');
  for (const name of ['replica', 'redis', 'postgres'] as const) {
    const measured = document.replicas?.idle[name];
    isNear(idle[name], measured ?? { median: NaN }, `without requests, ${name}`);
  }
  const held = document.sessions?.figures[1];
  const users = (held?.sessions ?? NaN) / 2;
  isNear(bytes.user, { median: (held?.bytes.users ?? NaN) / users }, 'bytes of a user');
  isNear(bytes.knownDevice, { median: (held?.bytes.devices ?? NaN) / users }, 'bytes of a known device');
  t.end();
});
