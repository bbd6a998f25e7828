import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { readmeRights } from '../../support/redis-acl.ts';

const FOLDER = 'src/infra/redis/lua';

test('the scripts call no command that the ACL of docs/operating.md does not allow', (t) => {
  const allowed = new Set(readmeRights().filter((right) => right.startsWith('+')));
  for (const name of readdirSync(FOLDER)) {
    const called = readFileSync(join(FOLDER, name), 'utf8').matchAll(/\bcall\('([A-Z]+)'/g);
    for (const [, command = ''] of called)
      t.ok(allowed.has(`+${command.toLowerCase()}`), `${name}: ${command}`);
  }
  t.ok(allowed.has('+hmget'));
  t.end();
});
