import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { testFolder } from './folder.ts';
import { freePort } from './free-port.ts';
import { startServerProcess } from './server-process.ts';

/**
 * Starts an HAProxy that asks each PostgreSQL server whether it is the primary, and sends all connections there.
 * @param servers URLs of the same database, without a password.
 * @returns the URL of the database through HAProxy.
 */
export async function startHaproxy(t: Test, servers: readonly string[]): Promise<{ url: string }> {
  const port = await freePort();
  const url = new URL(servers[0] ?? '');
  const state = `http://127.0.0.1:${await freePort()}`;
  const lines = servers.map((server, i) => `server postgres-${i} ${new URL(server).host} check`);
  const config = `
    defaults
      mode tcp
      timeout connect 1s
      timeout client 1h
      timeout server 1h
      timeout check 5s
    listen postgres
      bind 127.0.0.1:${port}
      option tcp-check
      tcp-check connect
      tcp-check send-binary ${startup(url.username, 'postgres')}
      tcp-check expect binary ${READY}
      tcp-check send-binary ${message('Q', 'SELECT pg_is_in_recovery()\0')}
      tcp-check expect binary ${IS_FALSE}
      default-server inter 100ms fall 2 rise 1 on-marked-down shutdown-sessions
      ${lines.join('\n')}
    # Before its first checks, HAProxy sends connections to every server.
    frontend state
      mode http
      bind ${new URL(state).host}
      monitor-uri /
      monitor fail unless { nbsrv(postgres) eq 1 }
  `;
  url.port = String(port);
  await run(t, config, state, 200);
  return { url: url.href };
}

/**
 * Starts an HAProxy that checks tokens.
 * @param frontend listens at :8080 and passes requests on to the backend `orders`.
 * @param application where the backend is.
 */
export async function startHttpHaproxy(
  t: Test,
  frontend: string,
  application: string,
): Promise<{ url: string }> {
  const url = `http://127.0.0.1:${await freePort()}`;
  const config = `
    defaults
      mode http
      timeout connect 5s
      timeout client 5s
      timeout server 5s
    ${frontend.replace('bind :8080', `bind ${new URL(url).host}`)}
    backend orders
      server application ${new URL(application).host}
  `;
  await run(t, config, url, 401);
  return { url };
}

/** @param status what it answers at `url` once it is ready. */
async function run(t: Test, config: string, url: string, status: number): Promise<void> {
  const file = join(testFolder(t), 'haproxy.cfg');
  writeFileSync(file, config.replace(/^ +/gm, ''));
  await startServerProcess(t, ['haproxy', '-q', '-db', '-f', file], {
    answers: async () => (await fetch(url).catch(() => null))?.status === status,
  });
}

// PostgreSQL's messages (its manual, "Message Formats") in hexadecimal.

/** ReadyForQuery, outside a transaction. */
const READY = message('Z', 'I');
/** DataRow with one column, which is `f`. */
const IS_FALSE = message('D', '\0\x01\0\0\0\x01f');

function startup(user: string, database: string): string {
  return message('', `\0\x03\0\0user\0${user}\0database\0${database}\0\0`);
}

/** The type, the length, which counts itself, and the content. */
function message(type: string, content: string): string {
  const length = Buffer.alloc(4);
  length.writeInt32BE(4 + content.length);
  return Buffer.concat([Buffer.from(type), length, Buffer.from(content, 'latin1')]).toString('hex');
}
