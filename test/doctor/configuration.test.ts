import { test } from 'tap';
import { checkConfiguration } from '../../src/doctor/configuration.ts';

test('every problem is a finding, without the value', (t) => {
  const { config, findings } = checkConfiguration({ PORT: 'sesame', REDIS_URL: 'http://ada:sesame@host' });
  t.equal(config, null);
  t.match(findings, [
    { state: 'fail', found: /^PORT must be/ },
    { state: 'fail', found: /^REDIS_URL must be/ },
  ]);
  t.notMatch(JSON.stringify(findings), /sesame/);
  t.end();
});

test('what is embedded is named', (t) => {
  const { config, findings } = checkConfiguration({ SCRYPT_LOG_N: '4' });
  t.not(config, null);
  t.match(findings[0], { state: 'warn', found: /embedded PostgreSQL.*in-process.*signing keys.*secret/ });
  t.end();
});

test('a drain that takes all the time there is cuts requests', (t) => {
  const drain = (env: Record<string, string>) =>
    checkConfiguration({ SCRYPT_LOG_N: '4', ...env }).findings.find(({ check }) => check === 'drain')?.state;
  t.equal(drain({}), 'ok');
  t.equal(drain({ DRAIN_DELAY: '25', SHUTDOWN_TIMEOUT: '25' }), 'warn');
  t.end();
});
