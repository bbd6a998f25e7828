import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { freePort } from './redis-server.ts';
import { bareEnvironment } from './service.ts';
import { until } from './until.ts';

const FILE = new URL('../../../deploy/caddy/Caddyfile', import.meta.url).pathname;

/**
 * Caddy with deploy/caddy/Caddyfile. Only addresses differ: the port it listens at, and those in `upstreams`. It ends
 * with the test.
 */
export async function startDeployedCaddy(
  t: Test,
  upstreams: Readonly<Record<string, string>>,
): Promise<{ url: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'lk-caddy-'));
  const port = await freePort();
  let text = readFileSync(FILE, 'utf8');
  const replace = (from: string, to: string) => {
    if (!text.includes(from)) throw new Error(`there is no ${from} in the Caddyfile`);
    text = text.replaceAll(from, to);
  };
  replace('\n:8080 {', `\n:${port} {\n\tbind 127.0.0.1`);
  for (const [name, address] of Object.entries(upstreams)) replace(` ${name}`, ` ${new URL(address).host}`);
  const file = join(folder, 'Caddyfile');
  writeFileSync(file, text);

  const child = spawn('caddy', ['run', '--config', file, '--adapter', 'caddyfile'], {
    env: bareEnvironment({ HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder }),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const ended = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGTERM');
    await ended;
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  const url = `http://127.0.0.1:${port}`;
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`caddy ended:\n${log}`);
    return (await fetch(url).catch(() => null)) !== null;
  });
  return { url };
}
