import { test } from 'tap';
import { judgeCertificate } from '../../src/doctor/certificate.ts';
import { checkDatabase } from '../../src/doctor/database.ts';
import { checkRedis } from '../../src/doctor/redis.ts';
import { aConfig, byCheck, runDoctor } from '../support/doctor.ts';
import { clockAhead } from '../support/faketime.ts';
import { redisServersMissing } from '../support/redis-server.ts';
import { startTlsRedis } from '../support/redis-tls.ts';
import { testDatabase } from '../support/postgres.ts';
import { toolsMissing } from '../support/tools.ts';

test('30 days ahead, the end of a certificate is a warning', (t) => {
  const now = Date.parse('2026-11-01T12:00:00Z');
  const at = (date: string) => judgeCertificate('the database', Date.parse(date), now);
  t.match(at('2026-12-02'), [{ state: 'ok', found: 'expires on 2026-12-02' }]);
  t.match(at('2026-12-01'), [{ state: 'warn', found: 'expires on 2026-12-01', todo: /renew/ }]);
  t.match(at('2026-11-01T11:00:00Z'), [{ state: 'fail', found: 'expired on 2026-11-01', todo: /renew/ }]);
  t.strictSame(judgeCertificate('the database', null, now), [], 'no TLS, no finding');
  t.end();
});

test(
  'the doctor reads the certificates of the stores',
  { skip: redisServersMissing || toolsMissing('openssl', 'faketime', 'env') },
  async (t) => {
    const { url: REDIS_URL, ca: REDIS_CA } = await startTlsRedis(t);
    const days = new RegExp(`^expires on ${new Date(Date.now() + 2 * 86_400_000).toISOString().slice(0, 8)}`);
    t.match(byCheck(await checkRedis(aConfig({ REDIS_URL, REDIS_CA }))), {
      'certificate of': [{ state: 'warn', found: days }],
    });
    const late = await runDoctor({ REDIS_URL, REDIS_CA, ...clockAhead(3 * 86_400) });
    t.match(late.findings, {
      redis: [{ state: 'fail', found: /expired/, todo: "renew the server's certificate" }],
    });
    const { url: DATABASE_URL } = await testDatabase(t);
    const plain = byCheck(await checkDatabase(aConfig({ DATABASE_URL })));
    t.notOk('certificate of the database' in plain);
  },
);
