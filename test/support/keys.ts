import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { testFolder } from './folder.ts';
import type { Environment } from '../../src/config/config.ts';
import { buildTestApp } from './app.ts';

const PKCS8 = { type: 'pkcs8', format: 'pem' } as const;
/** New private keys, as PEM. */
export const KEYS = {
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export(PKCS8).toString(),
  EdDSA: () => generateKeyPairSync('ed25519').privateKey.export(PKCS8).toString(),
  RS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export(PKCS8).toString(),
};
/** A new refresh secret. */
export const aSecret = () => randomBytes(32).toString('base64url');

/** A service whose keys the test controls. @param lead KEY_PUBLISH_LEAD; without it a key signs at once. */
export async function withKeys(
  t: Test,
  algorithm: keyof typeof KEYS = 'ES256',
  lead = 0,
  settings: Environment = {},
) {
  const folder = testFolder(t);
  const pem = KEYS[algorithm]();
  const secret = aSecret();
  writeFileSync(join(folder, '0001.pem'), pem);
  const secretFile = join(folder, 'refresh-secret');
  writeFileSync(secretFile, secret);
  const env = {
    SIGNING_KEYS_DIR: folder,
    REFRESH_TOKEN_SECRET_FILE: secretFile,
    KEY_PUBLISH_LEAD: String(lead),
    ...settings,
  };
  const target = await buildTestApp(t, { env });
  // The scheduler reloads the keys, and asks which of them signs.
  target.composition.start();
  return { target, env, folder, pem, secret, secretFile };
}
