import { test } from 'tap';
import { checkMemory } from '../../src/doctor/memory.ts';
import { aConfig } from '../support/doctor.ts';

const MIB = 1024 ** 2;

test('the memory of all hashes at once against the limit', (t) => {
  const config = aConfig({ SCRYPT_LOG_N: '17', HASH_CONCURRENCY: '2' });
  t.match(checkMemory(config, 512 * MIB), {
    state: 'ok',
    found: /^2 hashes .* 128 MiB .* 384 MiB of 512 MiB$/,
  });
  t.match(checkMemory(config, 400 * MIB), {
    state: 'warn',
    found: /384 MiB of 400 MiB$/,
    todo: /HASH_CONCURRENCY/,
  });
  t.end();
});
