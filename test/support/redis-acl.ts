import { readFileSync } from 'node:fs';

/** A user as the README has it made (`ACL SETUSER`), with another password. */
export function readmeRights(name = 'latchkey', password = 'secret'): string[] {
  const found = new RegExp(`^ACL SETUSER (${name} .+)$`, 'm').exec(readFileSync('README.md', 'utf8'));
  if (!found?.[1]) throw new Error(`the README makes no user ${name}`);
  return found[1].replace(/>\S+/, `>${password}`).split(' ');
}
