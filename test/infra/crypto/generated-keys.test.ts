import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import {
  factorKeysOf,
  generatedFactorKeys,
  generatedRefreshSecret,
  generatedSigningKeysDir,
} from '../../../src/infra/crypto/generated-keys.ts';
import { parseFactorKeys } from '../../../src/infra/crypto/factor-keys.ts';
import { readSigningKeys } from '../../../src/infra/crypto/key-files.ts';
import { parseRefreshSecrets } from '../../../src/infra/crypto/keys.ts';

test('keys are generated once, readable by their owner only, and reused', (t) => {
  const dataDir = join(t.testdir({}), 'data');
  const directory = generatedSigningKeysDir(dataDir);
  const [key] = readSigningKeys(directory);
  const secret = generatedRefreshSecret(dataDir);

  t.equal(key?.algorithm, 'ES256');
  t.equal(parseRefreshSecrets(secret).length, 1);
  t.equal(readSigningKeys(generatedSigningKeysDir(dataDir))[0]?.kid, key?.kid);
  t.equal(generatedRefreshSecret(dataDir), secret);
  t.equal(statSync(join(directory, '0001.pem')).mode & 0o077, 0);
  t.strictSame(readdirSync(directory), ['0001.pem'], 'no temporary file is left');
  t.end();
});

test('a factor key is generated for the embedded database only', (t) => {
  const DATA_DIR = join(t.testdir({}), 'data');
  const key = factorKeysOf({ DATA_DIR }, generatedFactorKeys);
  t.equal(parseFactorKeys(key ?? '').length, 1);
  const DATABASE_URL = 'postgres://127.0.0.1/x';
  t.equal(factorKeysOf({ DATA_DIR, DATABASE_URL }, generatedFactorKeys), null, 'replicas would differ');
  t.equal(factorKeysOf({ DATA_DIR, DATABASE_URL, FACTOR_KEYS: 'given' }, generatedFactorKeys), 'given');
  t.end();
});
