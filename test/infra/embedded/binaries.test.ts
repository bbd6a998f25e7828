// suite: e2e
import { chmodSync, chownSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { closedProject, errorOf, host, unprivileged, onlyRoot } from '../../support/embedded.ts';
import { testFolder } from '../../support/folder.ts';

test('programs that another user has put in place are not run', { skip: onlyRoot }, async (t) => {
  const project = closedProject(t);
  const script = join(project, 'dist/test/support/embedded-host.js');
  const temporary = testFolder(t);
  chmodSync(temporary, 0o1777);
  const options = { script, temporary };
  await host(t, join(project, '.data'), options);
  const [copy = ''] = readdirSync(temporary);
  chownSync(join(temporary, copy), unprivileged, unprivileged);
  t.match(errorOf(await host(t, join(project, '.data2'), options)), 'its programs cannot be trusted');
});
