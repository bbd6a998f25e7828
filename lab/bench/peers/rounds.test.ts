import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { test, type Test } from 'tap';
import { inTurn, type Workload } from '../operations.ts';
import { requestText } from '../../../test/support/generator/requests.ts';
import { runInTurns } from './rounds.ts';
import type { BenchedServer, Entrant } from './servers.ts';
import { introspecting, rotating } from './workloads.ts';

const CLIENT = { authorization: 'Basic dGVzdDp0ZXN0' };
const BRIEF = { rounds: 3, seconds: 0.05, warmUpSeconds: 0.05 };

/** A stand-in for a peer. @param answer the body for each form that arrives. */
async function peer(t: Test, answer: (form: URLSearchParams) => string): Promise<BenchedServer> {
  const respond = async (request: IncomingMessage) => answer(new URLSearchParams(await text(request)));
  const server = createServer((request, response) => {
    void respond(request).then((body) => {
      response.end(body);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      resolve();
    });
  });
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    name: 'peer',
    version: '1',
    url,
    redisPrefix: null,
    databaseUrl: null,
    offers: {},
    cpuSeconds: () => 0,
    emptyLog: () => undefined,
    stop: () => Promise.resolve(),
  };
}

function entrant(server: BenchedServer, expected: string, workload: Workload): Entrant {
  return { server, offer: { request: 'POST /', signatures: '', expected, workload }, rounds: [] };
}

test('servers take turns, in an order that changes each round', async (t) => {
  const log: string[] = [];
  const entrants = [];
  for (const name of ['a', 'b']) {
    const server = await peer(t, () => {
      if (log.at(-1) !== name) log.push(name);
      return 'right';
    });
    entrants.push(entrant(server, 'right', inTurn([requestText('POST /')], 2)));
  }
  await runInTurns(entrants, BRIEF);
  t.equal(log.join(''), 'ababab', 'the warm-up a b, then a b, b a, a b: two in a row count once');
  for (const { rounds } of entrants) {
    t.equal(rounds.length, 3);
    t.ok(rounds.every(({ perSecond }) => perSecond > 0));
  }
});

test('each connection follows its own refresh tokens', async (t) => {
  const seen = new Set<string>();
  const repeated: string[] = [];
  const server = await peer(t, (form) => {
    const token = form.get('refresh_token') ?? '';
    if (seen.has(token)) repeated.push(token);
    seen.add(token);
    const [chain = '', number = ''] = token.split('-');
    return JSON.stringify({ refresh_token: `${chain}-${Number(number) + 1}` });
  });
  await runInTurns(
    [entrant(server, '"refresh_token":', rotating('/token', CLIENT, ['one-0', 'two-0']))],
    BRIEF,
  );
  t.strictSame(repeated, []);
  for (const chain of ['one', 'two'])
    t.ok([...seen].filter((token) => token.startsWith(chain)).length > 2, chain);
});

test('a refresh token that is not replaced is not sent again', (t) => {
  const [caller] = rotating('/token', CLIENT, ['one']).callers;
  t.match(caller?.next(), 'refresh_token=one');
  caller?.answered?.('{"refresh_token":"one"}');
  t.notMatch(caller?.next(), 'refresh_token=one');
  t.end();
});

test('an answer that is fast and wrong ends the run', async (t) => {
  const server = await peer(t, () => '{"active":false}');
  const workload = introspecting('/introspect', CLIENT, ['a-token']);
  await t.rejects(
    runInTurns([entrant(server, '"active":true', workload)], BRIEF),
    /peer: POST \/ was answered 200: \{"active":false\}/,
  );
});
