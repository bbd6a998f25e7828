import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { isRoot, nobody } from './embedded.ts';
import { freePort } from './redis-server.ts';
import { until } from './until.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;

/**
 * nginx with a file of deploy/nginx, as an ordinary user. Only addresses differ from the container: the port it
 * listens at, the names in `upstreams`, and a folder of the test's own instead of /tmp. It ends with the test.
 */
export async function startDeployedNginx(
  t: Test,
  file: string,
  upstreams: Readonly<Record<string, string>> = {},
): Promise<{ url: string; log(): string }> {
  const folder = mkdtempSync(join(tmpdir(), 'lk-nginx-'));
  chmodSync(folder, 0o777);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let text = readFileSync(join(ROOT, 'deploy/nginx', file), 'utf8');
  const replace = (from: string | RegExp, to: string) => {
    const replaced = text.replaceAll(from, to);
    if (replaced === text) throw new Error(`there is no ${String(from)} in ${file}`);
    text = replaced;
  };
  replace(/listen \d+;/g, `listen 127.0.0.1:${port};`);
  replace(' /tmp/', ` ${folder}/`);
  for (const [name, address] of Object.entries(upstreams)) replace(name, address);
  writeFileSync(join(folder, 'nginx.conf'), text);

  const child = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    ...(isRoot && { uid: nobody, gid: nobody }),
  });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const ended = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGTERM');
    await ended;
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`nginx ended:\n${log}`);
    return (await fetch(`${url}/_health`).catch(() => null))?.status === 204;
  });
  return { url, log: () => log };
}
