import { test } from 'tap';
import { checkMemory } from '../../src/doctor/memory.ts';
import { aConfig } from '../support/doctor.ts';

const MIB = 1024 ** 2;

test('the memory of all concurrent hashes against the limit', (t) => {
  const config = aConfig({ SCRYPT_LOG_N: '17', HASH_CONCURRENCY: '2' });
  t.match(checkMemory(config, 768 * MIB), {
    state: 'ok',
    found: /^2 hashes .* 128 MiB .* 640 MiB of 768 MiB$/,
  });
  t.match(checkMemory(config, 700 * MIB), {
    state: 'warn',
    found: /640 MiB of 700 MiB$/,
    todo: /HASH_CONCURRENCY/,
  });
  t.end();
});
