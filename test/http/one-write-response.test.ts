import fastify from 'fastify';
import { test, type Test } from 'tap';
import { OneWriteResponse } from '../../src/http/one-write-response.ts';

const LARGE = 'x'.repeat(4 * 1024 * 1024);

/** A server whose sockets count how often they are written to. */
async function open(t: Test) {
  const app = fastify({ http: { ServerResponse: OneWriteResponse } });
  let writes = 0;
  app.server.on('connection', (socket) => {
    const handle = (socket as unknown as { _handle: Record<string, (...args: unknown[]) => unknown> })
      ._handle;
    for (const name of ['writev', 'writeLatin1String', 'writeUtf8String', 'writeBuffer']) {
      const write = handle[name]?.bind(handle);
      handle[name] = (...args: unknown[]) => {
        writes++;
        return write?.(...args);
      };
    }
  });
  app.get('/ascii', () => ({ name: 'Ada' }));
  app.get('/names', () => ({ name: 'Zoë, 林 and 😀' }));
  app.get('/empty', (_request, reply) => reply.code(204).send());
  app.get('/buffer', () => Buffer.from([0, 255]));
  app.get('/large', () => LARGE);
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  t.teardown(() => app.close());
  return { url, writesOf: () => writes };
}

test('an answer with a body leaves in one write', async (t) => {
  const { url, writesOf } = await open(t);
  for (const [path, expected] of [
    ['/ascii', '{"name":"Ada"}'],
    ['/names', '{"name":"Zoë, 林 and 😀"}'],
  ] as const) {
    const before = writesOf();
    const response = await fetch(url + path);
    const body = await response.text();
    t.equal(body, expected);
    t.equal(response.headers.get('content-length'), String(Buffer.byteLength(expected)));
    t.equal(writesOf() - before, 1, path);
  }
});

test('answers without a body, of bytes, and larger than a socket takes at once arrive whole', async (t) => {
  const { url } = await open(t);
  t.equal((await fetch(`${url}/empty`)).status, 204);
  t.equal((await fetch(`${url}/ascii`, { method: 'HEAD' })).status, 200);
  t.strictSame(Buffer.from(await (await fetch(`${url}/buffer`)).arrayBuffer()), Buffer.from([0, 255]));
  const large = await (await fetch(`${url}/large`)).text();
  t.ok(large === LARGE);
});
