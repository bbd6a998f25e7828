// alone
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { test } from 'tap';
import { PROBLEMS } from '../../src/http/problem.ts';
import { PASSKEYS } from '../support/passkeys.ts';
import { testDatabase } from '../support/postgres.ts';
import type { Document, JsonSchema, Operation, Response } from '../support/openapi.ts';
import { RIGHTS } from '../../src/domain/rights.ts';
import { aRegisteredService } from '../support/registered-service.ts';
import { readyService } from '../support/service.ts';
import { fuzz } from './fuzz.ts';
import '../support/watch-leaks.ts';

const DOCUMENT = readFileSync(new URL('../../../docs/openapi.json', import.meta.url), 'utf8');

/** FUZZ_COUNT requests, generated from FUZZ_SEED. */
const COUNT = Number(process.env.FUZZ_COUNT ?? 20_000);
const SEED = Number(process.env.FUZZ_SEED ?? Date.now() % 1e6);

/** If the service leaks more than a few kilobytes per request, it runs out of memory before the last one. */
const ENVIRONMENT = {
  NODE_OPTIONS: '--max-old-space-size=128',
  // With window 0 an exchanged token is reuse at once. An overlap would be a 503.
  REFRESH_RETRY_WINDOW: '0',
  DATABASE_TIMEOUT: '60000',
  REQUEST_TIMEOUT: '60',
  MAX_SESSIONS_PER_USER: '10000',
  FACTOR_KEYS: randomBytes(32).toString('base64url'),
  ...PASSKEYS,
};

test(`${COUNT} valid, invalid and hostile requests get documented answers`, async (t) => {
  t.comment(`FUZZ_SEED=${SEED}`);
  const { url: databaseUrl } = await testDatabase(t);
  const service = await readyService(t, { ...ENVIRONMENT, DATABASE_URL: databaseUrl });
  const client = await aRegisteredService(databaseUrl, 'billing', RIGHTS);
  await aRegisteredService(databaseUrl, 'orders', [], 'orders');
  const document = JSON.parse(DOCUMENT) as Document;
  const { seen, problems } = await fuzz({ url: service.url, document, count: COUNT, seed: SEED, client });
  t.strictSame(problems, []);
  const total = [...seen.values()].reduce((sum, each) => sum + each, 0);
  t.equal(total, COUNT);
  for (const [what, times] of [...seen].sort()) t.comment(`${times} ${what}`);
  const statuses = new Set([...seen.keys()].map((what) => what.split(': ')[1]));
  for (const status of ['200', '400', '401', '404', '405', '413', '415', '417', '431']) {
    t.ok(statuses.has(status), `${status} was seen`);
  }
  t.ok((seen.get('as documented: 200') ?? 0) > COUNT / 10, 'and many were valid');
  t.equal(await service.stop(), 0, 'the service is healthy');
});

test('finds an undocumented answer', async (t) => {
  const { url: databaseUrl } = await testDatabase(t);
  const service = await readyService(t, { ...ENVIRONMENT, DATABASE_URL: databaseUrl });
  const client = await aRegisteredService(databaseUrl, 'billing', RIGHTS);
  await aRegisteredService(databaseUrl, 'orders', [], 'orders');
  const mistakes: [name: string, found: RegExp, plant: (document: Document) => unknown][] = [
    ['a status', /401 is not documented/, (document) => delete profile(document).responses[401]],
    ['a status of a range', /413 is not documented/, (document) => delete unread(document).body_too_large],
    [
      'a member',
      /must NOT have additional properties/,
      (document) => delete propertiesOf(document, 'User').name,
    ],
    ['a header', /X-Other is missing/, (document) => (answerOf(document).headers = { 'X-Other': HEADER })],
    [
      'a content type',
      /application\/json is not documented/,
      (document) => (answerOf(document).content = {}),
    ],
    ['an event', /snapshot is no documented event/, (document) => delete eventsOf(document).snapshot],
    [
      'what a body needs',
      /it should have succeeded/,
      (document) =>
        (document.paths['/api/auth/llt'] = { post: { ...profile(document), operationId: 'getProfile' } }),
    ],
  ];
  for (const [i, [name, found, plant]] of mistakes.entries()) {
    const document = JSON.parse(DOCUMENT) as Document;
    plant(document);
    // Few requests get the answer that shows a mistake. `fuzz` stops at the tenth problem.
    const options = { url: service.url, document, count: 20_000, seed: SEED + 1 + i, client };
    const { problems } = await fuzz(options);
    t.ok(
      problems.some((problem) => found.test(problem)),
      `${name}: ${problems[0] ?? 'nothing was found'}`,
    );
  }
});

test('finds a fault of the service', async (t) => {
  const document = JSON.parse(DOCUMENT) as Document;
  const [status, title] = PROBLEMS.internal_error;

  const server = createServer((request, response) => {
    request.resume();
    const body = JSON.stringify({ title });
    const headers = { 'content-type': 'application/problem+json', 'content-length': body.length };
    response.writeHead(status, headers).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as { port: number };
  const client = { serviceId: 'unknown', secret: 'x'.repeat(43) };
  const { problems } = await fuzz({
    url: `http://127.0.0.1:${port}`,
    document,
    count: 50,
    seed: SEED,
    client,
  });
  t.match(problems.join('\n'), /500 is never right/);
});

const HEADER = { description: 'None', required: true, schema: {} };

function profile(document: Document): Operation {
  const found = document.paths['/api/user']?.get;
  if (!found) throw new Error('there is no profile');
  return found;
}

function unread(document: Document): Record<string, unknown> {
  const { content } = document.components.responses.BodyUnread as unknown as Response;
  return content?.['application/problem+json']?.examples ?? {};
}

function answerOf(document: Document) {
  return profile(document).responses[200] as { headers?: object; content?: object };
}

function eventsOf(document: Document): Record<string, JsonSchema> {
  const answer = document.paths['/api/auth/revocations']?.get?.responses[200] as Response | undefined;
  return answer?.content?.['text/event-stream']?.['x-events'] ?? {};
}

function propertiesOf(document: Document, name: string): Record<string, JsonSchema> {
  return document.components.schemas[name]?.properties as Record<string, JsonSchema>;
}
