import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { makeCertificates } from './certificates.ts';
import { isRoot, unprivileged } from './embedded.ts';
import { testFolder } from './folder.ts';
import { freePort } from './free-port.ts';
import { startServerProcess } from './server-process.ts';

const DEPLOY = new URL('../../../deploy/nginx/', import.meta.url).pathname;

type Edit = (text: string) => string;

export interface DeployedNginx {
  url: string;
  /** Everything that it has logged. */
  log(): string;
}

/**
 * nginx with a file of deploy/nginx, as an ordinary user. Only addresses differ from the container: the port it
 * listens at, the names in `upstreams`, and files in a folder of the test's own. It ends with the test.
 * @param edit changes forward-auth.conf.
 */
export async function startDeployedNginx(
  t: Test,
  file: string,
  upstreams: Readonly<Record<string, string>> = {},
  edit: Edit = (text) => text,
): Promise<DeployedNginx> {
  const folder = testFolder(t);
  chmodSync(folder, 0o777);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  copyIncludes(folder, edit);
  const text = adapt(file, readFileSync(join(DEPLOY, file), 'utf8'), [
    [/listen \d+;/g, `listen 127.0.0.1:${port};`],
    [' /tmp/', ` ${folder}/`],
    ...Object.entries(upstreams),
  ]);
  // A pipe of Node is a socket, which nginx cannot open by its name.
  const log = join(folder, 'stdout');
  writeFileSync(join(folder, 'nginx.conf'), text.replaceAll('/dev/stdout', log));
  const { errors } = await startServerProcess(t, command(folder, 'stderr'), {
    answers: async () => (await fetch(`${url}/_health`).catch(() => null))?.status === 204,
    ...(isRoot && { uid: unprivileged, gid: unprivileged }),
  });
  return { url, log: () => errors() + readIfThere(log) };
}

/**
 * nginx with deploy/nginx/two-replicas.conf. Only addresses and the folder of the logs and the certificate differ. It
 * ends with the test.
 * @param edit changes the file.
 */
export async function startTwoReplicaNginx(
  t: Test,
  replicas: readonly [string, string],
  edit: Edit = (text) => text,
): Promise<DeployedNginx & { ca: string }> {
  const folder = testFolder(t);
  const { words, url, ca } = await twoReplicaWords(folder);
  const file = 'two-replicas.conf';
  const text = adapt(file, edit(readFileSync(join(DEPLOY, file), 'utf8')), [
    ...Object.entries(words),
    ...replicas.map(
      (replica, i) => [`server 127.0.0.${i + 1}:3000`, `server ${new URL(replica).host}`] as const,
    ),
  ]);
  copyIncludes(folder);
  mkdirSync(join(folder, 'conf.d'));
  writeFileSync(join(folder, 'conf.d/latchkey.conf'), text);
  await startDebianNginx(t, folder);
  const logs = ['errors.log', 'latchkey-error.log', 'latchkey.log'].map((name) => join(folder, name));
  return { url, ca, log: () => logs.map(readIfThere).join('') };
}

/** What differs in two-replicas.conf, with a certificate of the test's own. */
export async function twoReplicaWords(folder: string) {
  const port = await freePort();
  const { certFile, keyFile, caFile, ca } = makeCertificates(folder, 'nginx');
  const words = {
    'listen 443 ssl;': `listen 127.0.0.1:${port} ssl;`,
    '/etc/ssl/auth.example.com.pem': certFile,
    '/etc/ssl/auth.example.com.key': keyFile,
    '/var/log/nginx/': `${folder}/`,
  };
  return { words, url: `https://127.0.0.1:${port}`, caFile, ca };
}

/** nginx with the configuration in `folder`/conf.d, included as Debian's nginx.conf does. It ends with the test. */
export async function startDebianNginx(t: Test, folder: string): Promise<void> {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  mkdirSync(join(folder, 'conf.d'), { recursive: true });
  writeFileSync(
    join(folder, 'nginx.conf'),
    `${isRoot ? 'user root;' : ''} daemon off; pid ${folder}/pid; events { worker_connections 768; } http {
      ${temporary.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(' ')}
      include conf.d/*.conf;
    }`,
  );
  await startServerProcess(t, command(folder, 'errors.log'), {
    answers: () => readIfThere(join(folder, 'pid')) !== '',
    log: () => readIfThere(join(folder, 'errors.log')),
  });
}

function command(folder: string, errors: string): [string, ...string[]] {
  return ['nginx', '-p', folder, '-c', join(folder, 'nginx.conf'), '-e', errors];
}

/** The files that a configuration includes, beside it as in /etc/nginx. */
function copyIncludes(folder: string, edit: Edit = (text) => text): void {
  mkdirSync(join(folder, 'latchkey'));
  for (const name of readdirSync(join(DEPLOY, 'latchkey'))) {
    const text = readFileSync(join(DEPLOY, 'latchkey', name), 'utf8');
    writeFileSync(join(folder, 'latchkey', name), name === 'forward-auth.conf' ? edit(text) : text);
  }
}

/** @throws Error if the text lacks one of the words. */
function adapt(file: string, text: string, words: readonly (readonly [string | RegExp, string])[]): string {
  return words.reduce((before, [from, to]) => {
    const after = before.replaceAll(from, to);
    if (after === before) throw new Error(`there is no ${String(from)} in ${file}`);
    return after;
  }, text);
}

function readIfThere(path: string): string {
  return existsSync(path) ? readFileSync(path, 'utf8') : '';
}
