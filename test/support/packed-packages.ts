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
  return pack(folder, 'verifier');
}

function pack(folder: string, name: string): string {
  const options = ['pack', '--silent', '--workspace', `@latchkey/${name}`, '--pack-destination', folder];
  const npm = spawnSync('npm', options, { cwd: ROOT, encoding: 'utf8' });
  const packed = readdirSync(folder).find((file) => file.startsWith(`latchkey-${name}-`));
  if (packed === undefined) throw new Error(`npm pack: ${npm.stdout}${npm.stderr}`);
  return join(folder, packed);
}

/** A package of its own with this one of ours, packed, and with these others. Needs no registry. */
function aPackageWith(t: Test, name: string, others: readonly string[] = [], archive?: string): string {
  const folder = testFolder(t);
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  unpack(folder, name, archive);
  // Copied, so that it cannot resolve other packages of this project.
  for (const other of others.map((each) => join('node_modules', each)))
    cpSync(join(ROOT, other), join(folder, other), { recursive: true });
  return folder;
}

/** @param archive the packed one; by default it is packed now. */
export function aPackageWithVerifier(t: Test, archive?: string): string {
  return aPackageWith(t, 'verifier', ['jose'], archive);
}

/** The same with the packed agent besides. */
export function aPackageWithAgent(t: Test): string {
  const folder = aPackageWithVerifier(t);
  unpack(folder, 'agent');
  return folder;
}

/** @returns the path of the packed agent’s program. */
export function packedAgent(t: Test): string {
  return join(aPackageWithAgent(t), 'node_modules/@latchkey/agent/dist/main.js');
}

export function aPackageWithClient(t: Test): string {
  return aPackageWith(t, 'client');
}

/** @param archive the packed one; by default it is packed now. @returns the path of the packed load kit’s program. */
export function packedLoad(t: Test, archive?: string): string {
  const folder = aPackageWith(t, 'load', ['undici', 'uplot'], archive);
  return join(folder, 'node_modules/@latchkey/load/dist/main.js');
}

/** Installs a package of ours into the folder, and none that it depends on. @returns where it is */
export function unpack(folder: string, name: string, archive = pack(folder, name)): string {
  const unpacked = join(folder, 'node_modules/@latchkey', name);
  mkdirSync(unpacked, { recursive: true });
  const options = ['-xzf', archive, '--strip-components=1'];
  const { status, stderr } = spawnSync('tar', options, { cwd: unpacked, encoding: 'utf8' });
  if (status !== 0) throw new Error(`tar: ${stderr}`);
  return unpacked;
}

/** The packed verifier, loaded into this process. */
export async function packedVerifier(t: Test, archive?: string): Promise<typeof verifier> {
  const main = join(aPackageWithVerifier(t, archive), 'node_modules/@latchkey/verifier/dist/main.js');
  return (await import(pathToFileURL(main).href)) as typeof verifier;
}
