import { test } from 'tap';
import { loadConfig } from '../../src/config/config.ts';
import { ConfigError } from '../../src/config/config.ts';

const MEMORY = 2 ** 40;

function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    loadConfig(env, MEMORY);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems;
  }
}

test('a network with too long a prefix is refused, by the name of its variable', (t) => {
  for (const value of [
    '10.0.0.0/99',
    '10.0.0.0/33',
    '::/129',
    '10.0.0.0/',
    '10.0.0.0/x',
    '10.0.0.0/8,1.1.1.1/99',
  ]) {
    for (const name of ['TRUST_PROXY', 'RATE_LIMIT_ALLOW']) {
      const problems = problemsOf({ [name]: value });
      t.equal(problems.length, 1, `${name}=${value}`);
      t.match(problems[0], new RegExp(`^${name} must be .*networks`));
      t.notMatch(problems[0], '\n');
    }
  }
  t.end();
});

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
