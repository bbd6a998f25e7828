import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { isRoot } from './embedded.ts';
import { freePort } from './redis-server.ts';
import { until } from './until.ts';

/** Where Debian keeps them. */
const MODULES = '/usr/lib/apache2/modules';

/** Ends what it started when its standard input closes, which it does however the test ends. */
const GUARD = '"$@" & cat >/dev/null; exec 2>/dev/null; kill -TERM %1; wait';

export interface Apache {
  /** A file that only whoever brings a good token may have. */
  url: string;
  errors(): string;
}

/**
 * Apache with mod_oauth2 in front of a file, which knows of the tokens what the directives say.
 * @param directives of mod_oauth2.
 */
export async function startApache(t: Test, directives: string): Promise<Apache> {
  const folder = mkdtempSync(join(tmpdir(), 'lk-apache-'));
  // Its workers are another user where we are root.
  chmodSync(folder, 0o755);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  writeFileSync(join(folder, 'protected.txt'), 'for whoever has a good token', { mode: 0o644 });
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
      AuthType oauth2
      ${directives}
      Require valid-user
    </Location>
    `,
  );
  const guard = spawn('bash', ['-c', GUARD, 'guard', 'apache2', '-D', 'FOREGROUND', '-f', file], {
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  const ended = once(guard, 'exit');
  t.teardown(async () => {
    guard.stdin.end();
    await ended;
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  let status: number | undefined;
  await until(async () => {
    status = (await fetch(url).catch(() => null))?.status;
    return status !== undefined || guard.exitCode !== null;
  });
  const errors = () => readFileSync(join(folder, 'errors.log'), 'utf8');
  if (status === undefined) throw new Error(`Apache does not start: ${errors()}`);
  return { url: `${url}/protected.txt`, errors };
}
