import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type * as verifier from '@latchkey/verifier';
import type { Test } from 'tap';
import { testFolder } from './folder.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;

/** Packs the built `@latchkey/verifier` into the folder. @returns the path of the archive. */
export function packVerifier(folder: string): string {
  const pack = ['pack', '--silent', '--workspace', '@latchkey/verifier', '--pack-destination', folder];
  const npm = spawnSync('npm', pack, { cwd: ROOT, encoding: 'utf8' });
  const packed = readdirSync(folder).find((name) => name.endsWith('.tgz'));
  if (packed === undefined) throw new Error(`npm pack: ${npm.stdout}${npm.stderr}`);
  return join(folder, packed);
}

/** A package of its own with the packed verifier, and with jose as the only other one. Needs no registry. */
export function aPackageWithVerifier(t: Test): string {
  const folder = testFolder(t);
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  const modules = join(folder, 'node_modules');
  const unpacked = join(modules, '@latchkey/verifier');
  mkdirSync(unpacked, { recursive: true });
  const unpack = ['-xzf', packVerifier(folder), '--strip-components=1'];
  const { status, stderr } = spawnSync('tar', unpack, { cwd: unpacked, encoding: 'utf8' });
  if (status !== 0) throw new Error(`tar: ${stderr}`);
  // Copied, so that it cannot resolve other packages of this project.
  cpSync(join(ROOT, 'node_modules/jose'), join(modules, 'jose'), { recursive: true });
  return folder;
}

/** The packed verifier, loaded into this process. */
export async function packedVerifier(t: Test): Promise<typeof verifier> {
  const main = join(aPackageWithVerifier(t), 'node_modules/@latchkey/verifier/dist/main.js');
  return (await import(pathToFileURL(main).href)) as typeof verifier;
}
