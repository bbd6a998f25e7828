import { cpSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { packageRoot } from '../../../src/infra/postgres/migration-files.ts';
import { testFolder } from '../../support/folder.ts';
import { aSecret } from '../../support/keys.ts';
import { launchOf } from '../../support/service.ts';
import type { ObservedReplica, ObservedSite } from './observed-site.ts';
import { today, USUAL } from './observed-site.ts';

/** One replica is left over from a rollout: another commit of the same version, a secret that the others lack, and a lifetime. */
export async function oddReplica(
  t: Test,
  site: ObservedSite,
  ...others: readonly ObservedReplica[]
): Promise<void> {
  const odd = await site.start(
    { REFRESH_TOKEN_SECRET: `${aSecret()},${site.secret}`, SESSION_MAX_AGE: '86400' },
    launchOf(serverOfRevision(t, '0'.repeat(40))),
  );
  site.scrape(USUAL, ...others, odd);
  await site.fire(USUAL, 'LatchkeyVersionSkew', 'LatchkeyKeysDiffer', 'LatchkeySettingsDiffer');
  await odd.stop();
  site.scrape(USUAL, ...others);
  await site.calm(USUAL, 'LatchkeyVersionSkew', 'LatchkeyKeysDiffer', 'LatchkeySettingsDiffer');
}

/** First a key from last year signs, then a new one. */
export async function agedKey(site: ObservedSite): Promise<void> {
  site.signWithKeyOf('2025-01-01');
  await site.fire(USUAL, 'LatchkeyKeyOld');
  site.signWithKeyOf(today());
  await site.calm(USUAL, 'LatchkeyKeyOld', 'LatchkeyKeysDiffer');
}

/** This build under another revision: the built server.js in a copy of the package. */
function serverOfRevision(t: Test, revision: string): string {
  const folder = testFolder(t);
  const root = packageRoot();
  for (const part of ['prisma', 'dist/src'])
    cpSync(join(root, part), join(folder, part), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  cpSync(join(root, 'package.json'), join(folder, 'package.json'));
  writeFileSync(join(folder, 'dist/src/revision'), revision);
  return join(folder, 'dist/src/server.js');
}
