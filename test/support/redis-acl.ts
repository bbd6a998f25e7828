import { readFileSync } from 'node:fs';

/** The `ACL SETUSER` arguments of docs/operating.md, with another password. */
export function readmeRights(name = 'latchkey', password = 'secret'): string[] {
  const found = new RegExp(`^ACL SETUSER (${name} .+)$`, 'm').exec(readFileSync('docs/operating.md', 'utf8'));
  if (!found?.[1]) throw new Error(`docs/operating.md makes no user ${name}`);
  return found[1].replace(/>\S+/, `>${password}`).split(' ');
}
