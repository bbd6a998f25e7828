import { readFileSync } from 'node:fs';

/** A user of docs/operating.md as arguments of `ACL SETUSER`, with another password. */
export function readmeRights(name = 'latchkey', password = 'secret'): string[] {
  const found = new RegExp(`^user (${name} .+)$`, 'm').exec(readFileSync('docs/operating.md', 'utf8'));
  if (!found?.[1]) throw new Error(`docs/operating.md makes no user ${name}`);
  return found[1].replace(/>\S+/, `>${password}`).split(' ');
}
