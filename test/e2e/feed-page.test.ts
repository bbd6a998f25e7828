import { createServer, type ServerResponse } from 'node:http';
import { test, type Test } from 'tap';
import { claimsOf } from '../support/client.ts';
import { readDocument } from '../support/documents.ts';
import { listen } from '../support/listen.ts';
import { readBlocks } from '../support/markdown.ts';
import { logOutOver, signUpOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { startPythonFeedReader } from '../support/python-feed-reader.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { readyService } from '../support/service.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

const PAGE = 'docs/integrating/feed.md';
const skip = { skip: toolsMissing('python3') };

test(`the reader in Python of ${PAGE} enforces, confirms and leaves`, skip, async (t) => {
  const blocks = readBlocks(readDocument(PAGE)).filter(({ language }) => language === 'python');
  t.equal(blocks.length, 1);
  const { url: DATABASE_URL } = await testDatabase(t);
  const { url } = await readyService(t, { DATABASE_URL });
  const { serviceId: id, secret } = await aRegisteredService(DATABASE_URL, 'reports');
  const operator = basic(await aRegisteredService(DATABASE_URL, 'operator', ['readers']));
  const ask = async (path: string) =>
    (await (await fetch(`${url}/api/auth/revocations/${path}`, { headers: operator })).json()) as {
      done: boolean;
      counts: object;
      readers: object[];
    };

  const python = startPythonFeedReader(t, { url, id, secret });
  const { access_token: access } = await signUpOver(url);
  const { access_token: other } = await signUpOver(url);
  await until(async () => (await ask('readers')).readers.length > 0);
  await t.resolves(python.verify(access));
  t.equal(await logOutOver(url, access), 200);
  const counts = { enforced: 1, bounded: 0, pending: 0, unknown: 0 };
  const question = `enforcement?token=${String(claimsOf(access).sid)}&wait=30`;
  t.match(await ask(question), { done: true, counts });
  await t.rejects(python.verify(access), { code: 'invalid_token' });
  await t.resolves(python.verify(other));
  t.match(await ask('readers'), { readers: [{ name: 'reports', instance: null, behind: 0 }] });
  t.equal(await python.end(), '', 'it complains of nothing');
  t.strictSame((await ask('readers')).readers, []);
});

/** A feed that sends its reader to another server first, and whose answers to confirmations never end. */
async function aTryingFeed(t: Test) {
  const world = { confirmations: 0, strayed: 0, stream: null as ServerResponse | null };
  const other = await listen(
    t,
    createServer((_, response) => {
      world.strayed++;
      response.end();
    }),
  );
  let opened = 0;
  const repeat = (response: ServerResponse, each: () => void) => {
    const timer = setInterval(each, 200);
    response.on('close', () => {
      clearInterval(timer);
    });
  };
  const send = (event: string, data: object) =>
    world.stream?.write(`event: ${event}\nid: a-1\ndata: ${JSON.stringify(data)}\n\n`);
  const server = createServer(({ method }, response) => {
    if (method === 'PUT') {
      world.confirmations++;
      response.writeHead(200);
      repeat(response, () => response.write(' '));
    } else if (++opened === 1) {
      response.writeHead(302, { location: other }).end();
    } else {
      world.stream = response.writeHead(200, { 'content-type': 'text/event-stream' });
      send('snapshot', { tokens: [11], users: [], statuses: [], last: true, remember: 905 });
      repeat(response, () => send('heartbeat', {}));
    }
  });
  return { url: await listen(t, server), world, send };
}

test(`the reader in Python of ${PAGE} goes nowhere else, and waits for no answer`, skip, async (t) => {
  const { url, world, send } = await aTryingFeed(t);
  const python = startPythonFeedReader(t, { url, id: 'lkc_reports', secret: 'a-secret' });
  const outcome = (sid: number, age = 0) => {
    const iat = Math.floor(Date.now() / 1000) - age;
    const claims = JSON.stringify({ sid, sub: '7', iat, exp: iat + age + 900 });
    const token = `e30.${Buffer.from(claims).toString('base64url')}.e30`;
    return python.verify(token).then(
      () => 'good',
      (error: unknown) => (error as { code: string }).code,
    );
  };
  await until(() => world.confirmations > 0);
  t.equal(world.strayed, 0, 'no other server gets the secret');
  t.equal(await outcome(11), 'invalid_token');
  t.equal(await outcome(12), 'good');
  t.equal(await outcome(12, 3600), 'unavailable', 'its end may be forgotten');
  send('revoked', { token: 12, user: 7 });
  await until(async () => (await outcome(12)) === 'invalid_token');
  t.equal(world.confirmations, 1, 'while the confirmation is under way');
});
