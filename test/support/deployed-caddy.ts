import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { readDocument, ROOT } from './documents.ts';
import { testFolder } from './folder.ts';
import { freePort } from './free-port.ts';
import { readBlocks } from './markdown.ts';
import { answersHttp, startServerProcess } from './server-process.ts';

const FILE = join(ROOT, 'deploy/caddy/Caddyfile');

/** An edit: what docs/installing.md makes of the file, with the addresses that the tests replace. */
export function onAHost(): string {
  const block = readBlocks(readDocument('docs/installing.md')).find(({ text }) =>
    text.includes('caddy validate'),
  );
  const [command] = (block?.text ?? '').split(' > /etc/caddy/');
  const text = execFileSync('bash', ['-euc', command ?? ''], { cwd: ROOT, encoding: 'utf8' });
  return text
    .replace('auth.example.com {', ':8080 {')
    .replaceAll('127.0.0.1:3000 127.0.0.2:3000', 'latchkey:3000');
}

/**
 * Caddy with deploy/caddy/Caddyfile. Only addresses differ: the port it listens at, those in `upstreams`, each one or
 * several, and the port at which Latchkey tells its health. It ends with the test.
 */
export async function startDeployedCaddy(
  t: Test,
  upstreams: Readonly<Record<string, string | readonly string[]>>,
  opsPort: string,
  edit: (text: string) => string = (text) => text,
): Promise<{ url: string }> {
  const folder = testFolder(t);
  const port = await freePort();
  let text = edit(readFileSync(FILE, 'utf8'));
  const replace = (from: string, to: string) => {
    if (!text.includes(from)) throw new Error(`there is no ${from} in the Caddyfile`);
    text = text.replaceAll(from, to);
  };
  replace('\n:8080 {', `\n:${port} {\n\tbind 127.0.0.1`);
  text = text.replaceAll('8082', String(await freePort()));
  for (const [name, addresses] of Object.entries(upstreams)) {
    const hosts = [addresses].flat().map((address) => new URL(address).host);
    replace(` ${name}`, ` ${hosts.join(' ')}`);
  }
  replace(' 9464', ` ${opsPort}`);
  const file = join(folder, 'Caddyfile');
  writeFileSync(file, text);

  const url = `http://127.0.0.1:${port}`;
  await startServerProcess(t, ['caddy', 'run', '--config', file, '--adapter', 'caddyfile'], {
    answers: () => answersHttp(url),
    env: { HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder },
  });
  return { url };
}
