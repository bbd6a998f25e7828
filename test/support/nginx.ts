import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { isRoot } from './embedded.ts';
import { freePort } from './redis-server.ts';
import { until } from './until.ts';

/** An nginx of the test's own in front of some backends; it ends with the test, and also when the test is killed. */
export interface Nginx {
  url: string;
  /** These are to get the requests. Resolves once nginx has read it; for a moment more, old workers take some too. */
  route(backends: readonly string[]): Promise<void>;
  /** Every request that it has passed on so far, as its own log has it. */
  passed(): Passed[];
}

export interface Passed {
  status: number;
  /** HOST:PORT of who answered; of several tries, the last. */
  backend: string;
}

/** Ends what it started when its standard input closes, which it does however the test ends. */
const GUARD = '"$@" & cat >/dev/null; exec 2>/dev/null; kill -TERM %1; wait';

/** Where the test asks which configuration is in force. */
const MARK = '/--configuration';

export async function startNginx(t: Test, backends: readonly string[]): Promise<Nginx> {
  const folder = mkdtempSync(join(tmpdir(), 'lk-nginx-'));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const file = join(folder, 'nginx.conf');
  let mark = 0;
  const write = (to: readonly string[]) => {
    writeFileSync(file, configuration(folder, port, to, ++mark));
  };
  const inForce = () =>
    until(async () => {
      const response = await fetch(url + MARK).catch(() => null);
      return (await response?.text()) === String(mark);
    });

  write(backends);
  const guard = spawn('bash', ['-c', GUARD, 'guard', 'nginx', '-p', folder, '-c', file, '-e', 'errors.log'], {
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  const ended = once(guard, 'exit');
  t.teardown(async () => {
    guard.stdin.end();
    await ended;
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  await inForce();

  return {
    url,
    async route(to) {
      write(to);
      process.kill(Number(readFileSync(join(folder, 'pid'), 'utf8')), 'SIGHUP');
      await inForce();
    },
    passed: () =>
      readFileSync(join(folder, 'passed.log'), 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => {
          const [status, ...tried] = line.split(' ');
          return { status: Number(status), backend: tried.at(-1) ?? '' };
        }),
  };
}

/**
 * Nothing is tried on a second backend: what a drain does not cover is to be seen, and a login or a refresh that was
 * sent may have been done. A client's connection ends with its answer, since a reload closes idle ones, perhaps under the
 * next request; connections to backends are kept.
 */
function configuration(folder: string, port: number, backends: readonly string[], mark: number): string {
  const servers = backends.map((backend) => `server ${new URL(backend).host};`).join(' ');
  return `
    daemon off;
    ${isRoot ? 'user root;' : ''}
    worker_processes 1;
    pid ${folder}/pid;
    error_log ${folder}/errors.log;
    events { worker_connections 512; }
    http {
      log_format passed '$status $upstream_addr';
      access_log off;
      ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(' ')}
      keepalive_timeout 0;
      upstream latchkey { ${servers === '' ? 'server 127.0.0.1:1;' : servers} keepalive 16; }
      server {
        listen 127.0.0.1:${port} backlog=1024;
        location = ${MARK} { return 200 '${mark}'; }
        location / {
          access_log ${folder}/passed.log passed;
          proxy_pass http://latchkey;
          proxy_http_version 1.1;
          proxy_set_header Connection '';
          proxy_set_header X-Forwarded-For $remote_addr;
          proxy_next_upstream off;
        }
      }
    }
  `;
}
