import { test } from 'tap';
import { loadConfig } from '../../src/config/config.ts';

const MEMORY = 2 ** 40;

test('a proxy range may cover every address, with a warning in the log', (t) => {
  for (const value of ['0.0.0.0/0', '::/0', '10.0.0.0/8, ::/0', '0.0.0.0/00']) {
    const { TRUST_PROXY: proxies, warnings } = loadConfig({ TRUST_PROXY: value }, MEMORY);
    t.ok(proxies);
    t.match(warnings, [/^TRUST_PROXY lists [\d.:]+\/0+: every client may choose/], value);
    t.equal(warnings.length, 1);
  }
  for (const value of ['false', 'loopback', '10.0.0.0/8,::1/128', '0.0.0.0/1'])
    t.strictSame(loadConfig({ TRUST_PROXY: value }, MEMORY).warnings, [], value);
  t.end();
});
