/**
 * `npm run bench:agent`: what the agent's /verify does over loopback, as a share of a bare node:http server with
 * fast-jwt's cache (agent-floor.ts), in turns; its p99; and its memory with 100,000 tokens cached and 100,000 revoked.
 * Against the fake Latchkey of the tests, because nothing is asked while the feed works. `--json`: one line of JSON.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { bearer } from '../../test/support/client.ts';
import { bareEnvironment } from '../../test/support/environment.ts';
import { fakeLatchkey } from '../../packages/verifier/test/fake-latchkey.ts';
import { freePort } from '../../test/support/free-port.ts';
import { runLoad } from '../../test/support/generator/load.ts';
import { requestText } from '../../test/support/generator/requests.ts';
import { startServer, type ServerProcess } from '../../test/support/measured-server.ts';
import { until } from '../../test/support/until.ts';
import { print, reportText, sourceText, spread, thisMachine } from '../table.ts';
import { quantile, sampleOf } from './statistics.ts';

const [ROUNDS, SECONDS, CONNECTIONS] = [15, 1, 32];
const TOKENS = 2000;
/** For the memory. */
const MANY = 100_000;
const AGENT = new URL('../../../packages/agent/dist/main.js', import.meta.url).pathname;
const FLOOR = new URL('agent-floor.js', import.meta.url).pathname;

const { values: flags } = parseArgs({ options: { json: { type: 'boolean', default: false } } });
const endings: (() => unknown)[] = [];
const fake = await fakeLatchkey({ teardown: (end) => endings.push(end) });
const tokens = await Promise.all(Array.from({ length: TOKENS }, (_, i) => fake.sign({ sid: i + 1 })));

const folder = mkdtempSync(join(tmpdir(), 'latchkey-bench-'));
const [listen, ops] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
const start = (name: string, script: string, env: Record<string, string>) =>
  startServer({ script, nodeOptions: [], logFile: join(folder, name), env: bareEnvironment(env) });
const agent = await start('agent', AGENT, {
  LATCHKEY_URL: fake.url,
  LATCHKEY_AUDIENCE: 'latchkey',
  AGENT_LISTEN: listen,
  AGENT_OPS_LISTEN: ops,
  LATCHKEY_CLIENT_ID: fake.client.id,
  LATCHKEY_CLIENT_SECRET: fake.client.secret,
});
const floor = await start('floor', FLOOR, { JWK: JSON.stringify(fake.published[0]) });
await until(async () => (await fetch(`http://${ops}/health/ready`)).ok);

/** The next token's request, on each of the connections; and how long each answer took, in ms. */
async function load({ url }: ServerProcess, seconds: number) {
  const took: number[] = [];
  const requests = tokens.map((token) => requestText('GET /verify', { token }));
  const callers = Array.from({ length: CONNECTIONS }, (_, i) => {
    let [at, asked] = [i, 0];
    return {
      next() {
        asked = performance.now();
        at = (at + CONNECTIONS) % requests.length;
        return requests[at] ?? null;
      },
      answered: () => took.push(performance.now() - asked),
    };
  });
  const { requests: count, seconds: elapsed } = await runLoad(url, callers, seconds);
  return { rate: count / elapsed, p99: quantile(took, 0.99) };
}

for (const each of [agent, floor]) await load(each, 2);
const rounds: Record<'agent' | 'floor', { rate: number; p99: number }>[] = [];
for (let round = 0; round < ROUNDS; round++)
  rounds.push({ agent: await load(agent, SECONDS), floor: await load(floor, SECONDS) });

const memory: [what: string, bytes: number][] = [['after these rounds', agent.residentMemory()]];
for (let i = 0; i < MANY; i += TOKENS) {
  const more = await Promise.all(
    Array.from({ length: TOKENS }, (_, j) => fake.sign({ sid: TOKENS + i + j + 1 })),
  );
  for (const token of more) await fetch(`${agent.url}/verify`, { headers: bearer(token) });
}
const metric = async (name: string) => {
  const text = await (await fetch(`http://${ops}/metrics`)).text();
  return Number(new RegExp(`^latchkey_agent_${name} (.*)$`, 'm').exec(text)?.[1]);
};
const cached = await metric('cached_tokens');
memory.push([`${cached} tokens cached`, agent.residentMemory()]);
for (let i = 0; i < MANY; i++) fake.publish('revoked', { token: 10_000_000 + i, user: 7 });
const last = await fake.sign({ sid: 10_000_000 + MANY - 1 });
await until(async () => (await fetch(`${agent.url}/verify`, { headers: bearer(last) })).status === 401);
memory.push([`${MANY} revoked besides`, agent.residentMemory()]);

const shares = rounds.map((round) => round.agent.rate / round.floor.rate);
const of = (name: 'agent' | 'floor', value: 'rate' | 'p99') =>
  sampleOf(rounds.map((each) => each[name][value]));
const result = {
  date: new Date().toISOString(),
  machine: thisMachine(),
  share: sampleOf(shares),
  agent: { rate: of('agent', 'rate'), p99: of('agent', 'p99') },
  floor: { rate: of('floor', 'rate'), p99: of('floor', 'p99') },
  memory,
};
const tables = [
  {
    title: 'verify over loopback',
    head: ['', 'requests/s', 'p99 ms', 'share'],
    rows: [
      ['agent', result.agent.rate, spread(result.agent.p99, 1), spread(result.share, 2)],
      ['bare node:http with fast-jwt’s cache', result.floor.rate, spread(result.floor.p99, 1), ''],
    ],
  },
  {
    title: 'Memory of the agent',
    head: ['', 'MiB resident'],
    rows: memory.map(([what, bytes]) => [what, Math.round(bytes / 2 ** 20)]),
  },
];
const source = sourceText(
  result.date,
  result.machine,
  `ES256, ${CONNECTIONS} connections, medians of ${ROUNDS} rounds of ${SECONDS} s`,
);
await print(flags.json, result, reportText(tables, [], source));

await Promise.all([agent.stop(), floor.stop()]);
for (const end of endings) await end();
rmSync(folder, { recursive: true });
