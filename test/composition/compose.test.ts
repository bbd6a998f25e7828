import { pino } from 'pino';
import { test } from 'tap';
import { makeServices } from '../../src/composition/compose.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { fakeIssuer, SUBJECT } from '../support/fake-issuer.ts';
import { openPostgres } from '../support/open-postgres.ts';
import { testDatabase } from '../support/postgres.ts';
import { aRegisteredService, withRegistry } from '../support/registered-service.ts';
import { UNOBSERVED } from '../support/unobserved.ts';
import { until } from '../support/until.ts';

test('clients are loaded every 2 seconds, and the keys of their issuers every 5 minutes', async (t) => {
  const { url } = await testDatabase(t);
  await aRegisteredService(url, 'shop');
  const audience = 'https://auth.example';
  const issuer = await fakeIssuer(t, { audience });
  await withRegistry(url, (registry) =>
    registry.trust('shop', { issuer: issuer.url, subject: SUBJECT }, null),
  );
  const postgres = openPostgres(t, { url });
  const work = new Map<number, () => unknown>();
  const { checkAssertion } = makeServices({
    issuer: audience,
    prisma: postgres.prisma,
    clock: systemClock,
    observe: UNOBSERVED,
    logger: pino({ level: 'silent' }),
    tasks: { every: (ms, _name, task) => work.set(ms, task) },
  });
  await work.get(2000)?.();
  await until(() => issuer.requests.length === 2);
  await issuer.rotate();
  await work.get(300_000)?.();
  t.equal(issuer.requests.length, 4);
  t.match(await checkAssertion(await issuer.sign(), undefined), { name: 'shop' });
  t.equal(issuer.requests.length, 4, 'the new key is known');
});
