import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { isRoot } from './embedded.ts';
import { testFolder } from './folder.ts';
import { freePort } from './free-port.ts';
import { answersHttp, startServerProcess } from './server-process.ts';

/** Debian's folder of modules. */
const MODULES = '/usr/lib/apache2/modules';

export interface Apache {
  /** A file that Apache serves only with a good token. */
  url: string;
  errors(): string;
}

/**
 * Apache with mod_oauth2 in front of a file.
 * @param directives how it checks tokens, and which of them it requires.
 */
export async function startApache(t: Test, directives: string): Promise<Apache> {
  const folder = testFolder(t);
  // Under root its workers run as another user.
  chmodSync(folder, 0o755);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  writeFileSync(join(folder, 'protected.txt'), 'for holders of a good token', { mode: 0o644 });
  const modules = ['mpm_event', 'authn_core', 'authz_core', 'authz_user', 'oauth2'];
  const file = join(folder, 'apache.conf');
  writeFileSync(
    file,
    `
    ServerRoot ${folder}
    ServerName 127.0.0.1
    Listen 127.0.0.1:${port}
    PidFile ${folder}/pid
    ${isRoot ? 'User www-data\n    Group www-data' : ''}
    Mutex file:${folder}
    ErrorLog ${folder}/errors.log
    LogLevel info
    DocumentRoot ${folder}
    ${modules.map((name) => `LoadModule ${name}_module ${MODULES}/mod_${name}.so`).join('\n    ')}
    <Directory ${folder}>
      Require all denied
    </Directory>
    <Location /protected.txt>
      ${directives}
    </Location>
    `,
  );
  const log = join(folder, 'errors.log');
  const errors = () => (existsSync(log) ? readFileSync(log, 'utf8') : '');
  await startServerProcess(t, ['apache2', '-D', 'FOREGROUND', '-f', file], {
    answers: () => answersHttp(url),
    log: errors,
  });
  return { url: `${url}/protected.txt`, errors };
}
