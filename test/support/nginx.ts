import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { isRoot } from './embedded.ts';
import { testFolder } from './folder.ts';
import { freePort } from './free-port.ts';
import { startServerProcess } from './server-process.ts';
import { until } from './until.ts';

/** An nginx in front of some backends. It ends with the test, even if the test is killed. */
export interface Nginx {
  url: string;
  /** Sets the backends. Resolves once nginx has reloaded; old workers may still get a few requests. */
  route(backends: readonly string[]): Promise<void>;
  /** Every forwarded request so far, from nginx's log. */
  passed(): Passed[];
}

export interface Passed {
  status: number;
  /** HOST:PORT of the backend that answered; after several tries, the last. */
  backend: string;
}

/** A path that returns the number of the active configuration. */
const MARK = '/--configuration';

export async function startNginx(t: Test, backends: readonly string[]): Promise<Nginx> {
  const folder = testFolder(t);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const file = join(folder, 'nginx.conf');
  let mark = 0;
  const write = (to: readonly string[]) => {
    writeFileSync(file, configuration(folder, port, to, ++mark));
  };
  const isInForce = async () => {
    const response = await fetch(url + MARK).catch(() => null);
    return (await response?.text()) === String(mark);
  };

  write(backends);
  await startServerProcess(t, ['nginx', '-p', folder, '-c', file, '-e', 'errors.log'], {
    answers: isInForce,
  });

  return {
    url,
    async route(to) {
      write(to);
      process.kill(Number(readFileSync(join(folder, 'pid'), 'utf8')), 'SIGHUP');
      await until(isInForce);
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
 * No retry on a second backend: the test must see failures during a drain, and a login or refresh may have taken
 * effect. A client's connection ends with its answer, because a reload closes idle connections, perhaps during the next
 * request. Connections to backends are kept.
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
