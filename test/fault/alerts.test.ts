import { test, type Test } from 'tap';
import { dashboardQueries, metricsIn, readRules } from '../support/alert-rules.ts';
import { prometheusMissing } from '../support/prometheus.ts';
import { redisServersMissing } from '../support/redis-server.ts';
import { fakeTokens, guessedPasswords, heldRefreshes, stolenTokens } from './harness/attacks.ts';
import { eventually } from './harness/eventually.ts';
import { trimmedReader } from './harness/feed-trouble.ts';
import { brokenSchema, lockedTable, slowRedis, wrongClock } from './harness/misfortunes.ts';
import { startSite, USUAL, type ObservedSite } from './harness/observed-site.ts';
import { ordinaryDay } from './harness/ordinary-day.ts';
import { crowdedReplica, lateReplica, unreadyReplica } from './harness/sorry-replicas.ts';
import { storesAway } from './harness/stores-away.ts';
import { agedKey, oddReplica } from './harness/stopped-rollout.ts';

// A real Prometheus with our rules scrapes real replicas: an ordinary day first, then everything that there is an alert for.
// docs/runbook.md says of each entry how it is tried here.

const { alerts, recordings } = readRules();

test('every alert fires on what it is for', { skip: prometheusMissing || redisServersMissing }, async (t) => {
  const site = await startSite(t);
  const [one, two] = [await site.start(), await site.start()];
  site.scrape(USUAL, one, two);

  await t.test('an ordinary day: every query has data, and nothing fires', async (t) => {
    const day = ordinaryDay([one, two]);
    try {
      await everyMetricHasData(t, site);
      await everyQueryAnswers(t, site);
    } finally {
      await day.over();
    }
  });

  for (const cause of [stolenTokens, guessedPasswords, fakeTokens, heldRefreshes])
    await t.test(cause.name, () => cause(site, one));
  for (const cause of [brokenSchema, wrongClock, trimmedReader, lockedTable, slowRedis])
    await t.test(cause.name, () => cause(site, one));
  await t.test('a replica of another version, with other keys', (t) => oddReplica(t, site, one, two));
  await t.test('a key that is old', () => agedKey(site));
  await t.test('Redis is away from one, PostgreSQL from the other', async (t) => {
    const back = await storesAway(site, one, two);
    // Meanwhile, with stores of their own:
    for (const cause of [crowdedReplica, lateReplica, unreadyReplica])
      await t.test(cause.name, (t) => cause(t, site));
    await back();
    for (const name of ONLY_IN_TROUBLE) t.not((await site.prometheus.query(name)).length, 0, name);
  });
  await t.test('replicas that go', async () => {
    await two.stop('SIGKILL');
    await site.fire(USUAL, 'LatchkeyReplicaDown');
    await one.stop('SIGKILL');
    await site.fire(USUAL, 'LatchkeyNoneReady');
    site.scrapeNobody();
    await site.fire(undefined, 'LatchkeyNoneReady');
  });

  const missed = alerts.map(({ alert }) => alert).filter((name) => !site.seen.has(name));
  t.strictSame(missed, [], 'every alert fired');
});

/** Those of the rules and of the dashboard, and what the rules record. */
async function everyMetricHasData(t: Test, { prometheus }: ObservedSite): Promise<void> {
  const exprs = [...alerts, ...recordings, ...dashboardQueries()].map(({ expr }) => expr);
  const names = [...new Set(exprs.flatMap(metricsIn))].filter((name) => !ONLY_IN_TROUBLE.has(name));
  t.ok(names.length > 50, `${names.length} metrics`);
  for (const name of names) {
    await eventually(60, async () => {
      const [count] = await prometheus.query(`count({__name__="${name}"})`);
      return (count?.value ?? 0) > 0 ? null : `${name} has no data`;
    });
  }
}

/**
 * What there is nothing of as long as all is well; where a panel shows it, it shows 0. Prometheus has no series of alerts
 * that do not fire, and answers of a status have none before the first of them, so that nothing of 5xx is recorded.
 */
const ONLY_IN_TROUBLE = new Set(
  ['ALERTS', ...recordings.map(({ record }) => record)].filter((name) => /ALERTS|failures/.test(name)),
);

/** What a machine that has other things to do can cause by itself. */
const OF_A_BUSY_MACHINE = /Latency|Slow$|Late$|Exhausted|Saturated/;

/**
 * Every query of the dashboard, and what is recorded, has data where all is well, and every value is a number. Those of
 * the alerts are empty then, and each has data where its alert fires.
 */
async function everyQueryAnswers(t: Test, { prometheus }: ObservedSite): Promise<void> {
  const queries = [
    ...dashboardQueries(),
    ...recordings
      .filter(({ record }) => !ONLY_IN_TROUBLE.has(record))
      .map(({ record, expr }) => ({ panel: record, expr })),
  ];
  t.ok(queries.length > 50, `${queries.length} queries`);
  for (const { panel, expr } of queries) {
    await eventually(60, async () => {
      const samples = await prometheus.query(expr);
      if (samples.length === 0) return `${panel}: ${expr} is empty`;
      const none = samples.find(({ value }) => !Number.isFinite(value));
      return none ? `${panel}: ${expr} is ${none.value} for ${JSON.stringify(none.labels)}` : null;
    });
  }
  for (const { alert, expr } of alerts)
    if (!OF_A_BUSY_MACHINE.test(alert)) t.strictSame(await prometheus.query(expr), [], alert);
}
