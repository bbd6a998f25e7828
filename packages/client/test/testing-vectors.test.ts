import { setImmediate } from 'node:timers/promises';
import { test } from 'tap';
import { PROBLEMS, ROUTES } from '../src/testing/api.ts';
import { testServer, type Code, type OperationId, type TestServer } from '../src/testing/main.ts';
import { aBareHost } from './bare-context.ts';
import { readVectors } from './clients-document.ts';
import { expectedOf, runVector, type Answer, type Exchange, type Server, type Vector } from './run-vector.ts';

const AUTH = 'https://auth.example';

interface Issued {
  access_token: string;
  refresh_token: string;
}

test('the testing server answers every row as it says', async (t) => {
  let answers = 0;
  for (const row of readVectors()) {
    const { host, finish } = aBareHost(0.5);
    const behind = serverBehind(row);
    const { seen } = await finish(runVector(row, { ...host, server: behind }));
    // A login does not wait for the end of the session that it replaces.
    for (let i = 0; i < 20; i++) await setImmediate();
    t.strictSame(seen, expectedOf(row), row.id);
    t.strictSame(behind.differences, [], row.id);
    answers += behind.answers();
  }
  // The rest are answers of services, and of what stands between.
  t.ok(answers > 50, `${answers} answers`);
});

/** The testing server, brought into the state in which Latchkey gives a row's answers. */
function serverBehind(row: Vector): Server & { differences: string[]; answers: () => number } {
  const signsUp = row.calls.some(({ call }) => call === 'signup');
  const names = ['a', 'b', 'c', 'd', 'e', 'f', signsUp ? 'g' : 'ada', ...(signsUp ? [] : ['h'])];
  const password = 'pascal calculator';
  const server = testServer({ users: names.map((username) => ({ username, password })) });
  const differences: string[] = [];
  let answers = 0;
  const issued = new Map<string, Issued>();
  const age = typeof row.stored === 'object' ? row.stored.age : 0;

  async function ask(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
    const url = (input as string).replace(AUTH, server.url);
    const response = await server.fetch(url, init);
    const body = (await response.clone().json()) as Partial<Issued>;
    if (body.access_token !== undefined) issued.set(nameOf(body as Issued), body as Issued);
    return response;
  }

  async function pair(wanted: { session: number; generation: number; user: number | null }) {
    const { session, generation, user } = wanted;
    const first = `${session}.1`;
    const body = JSON.stringify({ username: names[Number(user) - 1], password });
    if (!issued.has(first)) await ask(`${AUTH}/api/auth`, { method: 'POST', body });
    for (let last = 1; last < generation; last++) {
      if (issued.has(`${session}.${last + 1}`)) continue;
      const authorization = `Bearer ${issued.get(`${session}.${last}`)?.refresh_token}`;
      await ask(`${AUTH}/api/auth/refresh`, { headers: { authorization } });
    }
    const found = issued.get(`${session}.${generation}`);
    if (!found) throw new Error(`${row.id}: the server has no pair ${session}.${generation}`);
    return found;
  }

  return {
    differences,
    answers: () => answers,
    pair: (wanted) =>
      // What the row begins with was issued then.
      issued.size === 0 ? atTime(Date.now() - age * 1000, () => pair(wanted)) : pair(wanted),
    async answer(exchange, input, init) {
      const { request, answer, meanwhile } = exchange;
      // Another tab was first.
      if (typeof meanwhile === 'object' && typeof answer === 'object' && answer.problem !== undefined)
        await pair(meanwhile);
      if (!prepare(server, exchange, age)) return undefined;
      const response = await ask(input, init);
      answers++;
      const [expected, given] = [wordsOf(answer), await wordsFrom(response)];
      if (expected !== null && expected !== given)
        differences.push(`${request}: ${given} instead of ${expected}`);
      return expected === null ? undefined : response;
    },
  };
}

/** @returns whether the testing server gives this answer, or has given one that was lost */
function prepare(server: TestServer, { request, token, answer }: Exchange, age: number): boolean {
  const operation = (Object.keys(ROUTES) as OperationId[]).find(
    (id) => `${ROUTES[id].method} ${ROUTES[id].path}` === request,
  );
  if (!operation) return false;
  if (typeof answer === 'string') return true;
  // A proxy's page, or an answer of a cache.
  const own = `refresh ${answer.pair?.session}.${answer.pair?.generation}`;
  if (answer.pair) return answer.pair.user !== null && token !== own;
  if (answer.status === 200) return /^\{"msg"/.test(answer.text ?? '');
  const code = answer.problem as Code | undefined;
  if (!code || answer.headers || !(ROUTES[operation].codes as readonly Code[]).includes(code)) return false;
  const session = Number(/ (\d+)\./.exec(token ?? '')?.[1]);
  if (operation === 'refresh' && code === 'invalid_token') server.end(session);
  // An access token that has expired is refused as it is.
  else if (operation === 'refresh' || age < 900) server.refuse(operation, code as never);
  return true;
}

/** An answer of a row in words, null if it never arrives. */
function wordsOf(answer: Answer): string | null {
  if (typeof answer === 'string') return null;
  const { status, pair, problem } = answer;
  if (pair) return `pair ${pair.session}.${pair.generation}`;
  return problem === undefined ? `${status}` : `${status} ${problem}`;
}

async function wordsFrom(response: Response): Promise<string> {
  const body = (await response.clone().json()) as Partial<Issued> & { code?: Code };
  if (body.access_token !== undefined) return `pair ${nameOf(body as Issued)}`;
  return body.code === undefined ? `${response.status}` : `${PROBLEMS[body.code][0]} ${body.code}`;
}

/** Session and generation. */
function nameOf({ access_token: token }: Issued): string {
  const [, claims = ''] = token.split('.');
  const { sid, gen } = JSON.parse(atob(claims.replace(/-/g, '+').replace(/_/g, '/'))) as Record<
    string,
    number
  >;
  return `${sid}.${gen}`;
}

async function atTime<Result>(time: number, work: () => Promise<Result>): Promise<Result> {
  const { now } = Date;
  Date.now = () => time;
  try {
    return await work();
  } finally {
    Date.now = now;
  }
}
