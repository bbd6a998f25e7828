import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { bareEnvironment } from '../../../test/support/environment.ts';
import { fakeLatchkey } from './fake-latchkey.ts';
import { aPackageWithVerifier } from '../../../test/support/packed-packages.ts';

/** Loads the packed verifier and jose into a context that has nothing of Node, and uses it there. */
const SCRIPT = `
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import vm from 'node:vm';

const [folder, issuer, secret, mine, foreign] = process.argv.slice(2);
const NAMES = \`AbortController AbortSignal atob btoa console crypto CryptoKey DOMException Headers performance
  ReadableStream Request Response structuredClone TextDecoder TextEncoder Uint8Array URL URLSearchParams
  clearTimeout clearInterval\`;
const context = vm.createContext({
  ...Object.fromEntries(NAMES.split(/\\s+/).map((name) => [name, globalThis[name]])),
  // A timer is a number elsewhere.
  setTimeout: (...timer) => Number(setTimeout(...timer)),
  setInterval: (...timer) => Number(setInterval(...timer)),
  // As Cloudflare's Workers do.
  fetch: (to, init) => (init.redirect === 'error' ? Promise.reject(new TypeError('redirect')) : fetch(to, init)),
});
const modules = new Map();
const load = (path) => {
  const module = modules.get(path) ?? new vm.SourceTextModule(readFileSync(path, 'utf8'), { context, identifier: path });
  modules.set(path, module);
  return module;
};
const main = load(join(folder, '@latchkey/verifier/dist/main.js'));
await main.link((name, { identifier }) =>
  load(name === 'jose' ? join(folder, 'jose/dist/webapi/index.js') : join(dirname(identifier), name)),
);
await main.evaluate();

const { createVerifier } = main.namespace;
const verifier = createVerifier({ issuer, audience: 'latchkey', client: { id: 'orders', secret } });
await verifier.ready({ signal: AbortSignal.timeout(10_000) });
const outcome = (token) => verifier.verify(token).then(({ sid }) => sid, (error) => error.reason);
console.log(await outcome(foreign), await outcome(mine), await outcome(mine), verifier.cachedTokens());
while ((await outcome(mine)) !== 'revoked') await new Promise((resolve) => setTimeout(resolve, 20));
await verifier.close();
const unsecret = createVerifier({ issuer, audience: 'latchkey', client: { assertion: () => 'jwt' } });
await unsecret.ready();
await unsecret.close();
console.log('closed');
`;

test('needs web globals only, and its warnings go to the console', async (t) => {
  const fake = await fakeLatchkey(t);
  const folder = aPackageWithVerifier(t);
  const script = join(folder, 'bare.mjs');
  writeFileSync(script, SCRIPT);
  const tokens = [await fake.sign(), await fake.sign({ aud: 'billing' })];
  const options = ['--experimental-vm-modules', '--no-warnings', script];
  const given = [join(folder, 'node_modules'), fake.url, fake.client.secret, ...tokens];
  const child = spawn(process.execPath, [...options, ...given], { env: bareEnvironment() });
  t.teardown(() => child.kill('SIGKILL'));
  let [output, errors] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => {
    if (output === '') fake.publish('revoked', { token: 11, user: 7 });
    output += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  // It ends once the verifiers are closed.
  t.strictSame(await once(child, 'close'), [0, null]);
  t.equal(output, 'audience 11 11 1\nclosed\n');
  t.equal(
    errors,
    'LatchkeyVerifier: no token has been good so far, check `audience`: it is latchkey, and the token is for billing\n',
  );
});
