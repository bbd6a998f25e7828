import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { isRoot, unprivileged } from './embedded.ts';
import { testFolder } from './folder.ts';
import { freePort } from './free-port.ts';
import { startServerProcess } from './server-process.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;

/**
 * nginx with a file of deploy/nginx, as an ordinary user. Only addresses differ from the container: the port it
 * listens at, the names in `upstreams`, and a folder of the test's own instead of /tmp. It ends with the test.
 */
export async function startDeployedNginx(
  t: Test,
  file: string,
  upstreams: Readonly<Record<string, string>> = {},
  edit: (text: string) => string = (text) => text,
): Promise<{ url: string; log(): string }> {
  const folder = testFolder(t);
  chmodSync(folder, 0o777);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let text = edit(readFileSync(join(ROOT, 'deploy/nginx', file), 'utf8'));
  const replace = (from: string | RegExp, to: string) => {
    const replaced = text.replaceAll(from, to);
    if (replaced === text) throw new Error(`there is no ${String(from)} in ${file}`);
    text = replaced;
  };
  replace(/listen \d+;/g, `listen 127.0.0.1:${port};`);
  replace(' /tmp/', ` ${folder}/`);
  for (const [name, address] of Object.entries(upstreams)) replace(name, address);
  writeFileSync(join(folder, 'nginx.conf'), text);

  const { errors } = await startServerProcess(
    t,
    ['nginx', '-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr'],
    {
      answers: async () => (await fetch(`${url}/_health`).catch(() => null))?.status === 204,
      ...(isRoot && { uid: unprivileged, gid: unprivileged }),
    },
  );
  return { url, log: errors };
}
