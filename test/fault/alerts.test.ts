import { test, type Test } from 'tap';
import { dashboardQueries, metricsIn, readRules } from '../support/alert-rules.ts';
import { prometheusMissing } from './harness/prometheus.ts';
import { redisServersMissing } from '../support/redis-server.ts';
import {
  fakeTokens,
  guessedCodes,
  guessedPasswords,
  heldRefreshes,
  stolenTokens,
} from './harness/attacks.ts';
import { eventually } from '../support/until.ts';
import { trimmedReader } from './harness/feed-trouble.ts';
import {
  absentMailer,
  unknownConstraint,
  lockedTable,
  slowRedis,
  wrongClock,
} from './harness/misfortunes.ts';
import { startSite, USUAL, type ObservedSite } from './harness/observed-site.ts';
import { ordinaryDay } from './harness/ordinary-day.ts';
import {
  crammedRedis,
  expiringCertificate,
  crowdedReplica,
  fullReplica,
  lateReplica,
  logLost,
  neglected,
  skewedReplica,
  trailLost,
  unreadyReplica,
} from './harness/sorry-replicas.ts';
import { storesAway } from './harness/stores-away.ts';
import { agedKey, oddReplica } from './harness/stopped-rollout.ts';

// A real Prometheus with our rules scrapes real replicas: first an ordinary day, then a cause for every alert.

const { alerts, recordings } = readRules();

/** Compares with the hour before, which no test waits for: only promtool's tests show it. */
const NEEDS_A_PAST = ['LatchkeyRefreshesRefused'];

/** Causes with stores of their own. */
const SEPARATE = [
  crowdedReplica,
  lateReplica,
  fullReplica,
  crammedRedis,
  expiringCertificate,
  neglected,
  unreadyReplica,
  trailLost,
  logLost,
];

test('every alert fires on its cause', { skip: prometheusMissing || redisServersMissing }, async (t) => {
  const site = await startSite(t);
  const [one, two] = [await site.start(), await site.start()];
  site.scrape(USUAL, one, two);

  await t.test('on an ordinary day every query has data, and no alert fires', async (t) => {
    const day = ordinaryDay([one, two]);
    try {
      await everyMetricHasData(t, site);
      await everyQueryAnswers(t, site);
    } finally {
      await day.over();
    }
  });

  for (const cause of [stolenTokens, guessedPasswords, guessedCodes, fakeTokens, heldRefreshes])
    await t.test(cause.name, () => cause(site, one));
  for (const cause of [absentMailer, unknownConstraint, wrongClock, trimmedReader, lockedTable, slowRedis])
    await t.test(cause.name, () => cause(site, one));
  await t.test('a replica of another build, with other keys', (t) => oddReplica(t, site, one, two));
  await t.test('an old key', () => agedKey(site));
  await t.test(skewedReplica.name, (t) => skewedReplica(t, site));
  await t.test('one replica loses Redis, the other PostgreSQL', async (t) => {
    const back = await storesAway(site, one, two);
    // Meanwhile, with separate stores:
    for (const cause of SEPARATE) await t.test(cause.name, (t) => cause(t, site));
    await back();
    for (const name of ONLY_IN_TROUBLE) t.not((await site.prometheus.query(name)).length, 0, name);
  });
  await t.test('replicas that are gone', async () => {
    await two.stop('SIGKILL');
    await site.fire(USUAL, 'LatchkeyReplicaDown');
    await one.stop('SIGKILL');
    await site.fire(USUAL, 'LatchkeyNoneReady');
    site.scrapeNone();
    await site.fire(undefined, 'LatchkeyNoneReady');
  });

  const missed = alerts.map(({ alert }) => alert).filter((name) => !site.seen.has(name));
  t.strictSame(missed, NEEDS_A_PAST, 'every other alert fired');
});

/** All metrics in the rules and on the dashboard, and the recorded series. */
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
 * Series that have no data while all is well; a panel shows 0 for them. Prometheus has no series of alerts that do not
 * fire, and answers of a status have no series before the first one, so no series of 5xx is recorded.
 */
const ONLY_IN_TROUBLE = new Set(
  ['ALERTS', ...recordings.map(({ record }) => record)].filter((name) => /ALERTS|failures/.test(name)),
);

/** Alerts that a busy machine alone can cause. */
const OF_A_BUSY_MACHINE = /Latency|Slow$|Late$|Exhausted|Saturated/;

/**
 * While all is well, every query of the dashboard and every recorded series has data, and every value is a number.
 * The queries of the alerts are empty then; each has data when its alert fires.
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
