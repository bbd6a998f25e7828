import type { Document } from '../support/openapi.ts';
import type { TestService } from '../support/registered-service.ts';
import { makeContract } from './contract.ts';
import { makeDice } from './dice.ts';
import { withMistake } from './mistakes.ts';
import { bytesOf } from './raw-requests.ts';
import { aRequest, type Request } from './requests.ts';
import { openWire, type Answer } from './wire.ts';
import { makeWorld } from './world.ts';

interface FuzzOptions {
  url: string;
  document: Document;
  /** The number of requests. The n-th depends on the seed and the earlier answers. */
  count: number;
  seed: number;
  /** A registered service. */
  client: TestService;
}

export interface Report {
  /** The number of answers by the change of the request and the status. */
  seen: Map<string, number>;
  /** The first few problems, each with its request. */
  problems: string[];
}

const CONNECTIONS = 8;
const MAX_PROBLEMS = 10;

/** Sends requests generated from the document, and checks every answer against it. */
export async function fuzz({ url, document, count, seed, client }: FuzzOptions): Promise<Report> {
  const contract = makeContract(document);
  const world = makeWorld(client);
  const report: Report = { seen: new Map(), problems: [] };
  const run = { dealt: 0 };
  let next = 0;

  async function work(): Promise<void> {
    const wire = openWire(url);
    while (next < count && report.problems.length < MAX_PROBLEMS) {
      const index = next++;
      const dice = makeDice(seed * 1_000_003 + index, run);
      const { known, request: good } = aRequest(dice, contract, world);
      const request = withMistake(good, dice, contract.properties(known.operation));
      const bytes = bytesOf(request);
      // After bytes that are not HTTP, the start of the next answer cannot be found on that connection.
      const line = request.raw ? openWire(url) : wire;
      try {
        const answer = await line.ask(bytes, request.method === 'HEAD');
        note(report, `${request.name}: ${answer.status}`);
        const problems = check(request, answer);
        for (const problem of problems) report.problems.push(describe(problem, index, bytes, answer));
        settle(request, answer);
      } catch (error) {
        report.problems.push(describe((error as Error).message, index, bytes));
        line.close();
      }
      if (line !== wire) line.close();
    }
    wire.close();
  }

  function check(request: Request, answer: Answer): string[] {
    const { method, target, raw, expects, secrets } = request;
    const text = answer.body.toString();
    const told = secrets.filter((secret) => secret.length >= 8 && text.includes(secret));
    return [
      ...(raw ? checkRaw(method, target, answer) : contract.check(method, target, answer)),
      ...(expects === 'success' && !isSuccess(request, answer) ? ['it should have succeeded'] : []),
      ...(expects === 'refusal' && answer.status < 400 ? ['it should have been refused'] : []),
      ...told.map(() => 'it repeats a secret'),
    ];
  }

  /** Some malformed requests are still understood, and get the answer that their operation documents. */
  function checkRaw(method: string, target: string, answer: Answer): string[] {
    const withoutPath = contract.check(method, 'no path', answer);
    return withoutPath.length === 0 ? [] : contract.check(method, target, answer);
  }

  /** Gives back the request's session in its new state. */
  function settle({ session, succeed, name, method, body }: Request, answer: Answer): void {
    const isRight = answer.status === 200 && method !== 'HEAD';
    const after = isRight ? succeed(parse(answer), body) : session;
    // A reused refresh token ends the session, and another method may have done so.
    if (after && !['a token that was exchanged', 'another method'].includes(name)) world.giveBack(after);
  }

  await Promise.all(Array.from({ length: CONNECTIONS }, work));
  return report;

  function describe(problem: string, index: number, bytes: Buffer, answer?: Answer): string {
    const sent = JSON.stringify(bytes.subarray(0, 600).toString('latin1'));
    const got = answer ? `${answer.status} ${answer.body.toString().slice(0, 400)}` : 'nothing';
    return `${problem}\n  seed ${seed}, request ${index}: ${sent}\n  answer: ${got}`;
  }
}

function note({ seen }: Report, what: string): void {
  seen.set(what, (seen.get(what) ?? 0) + 1);
}

/** A request with If-None-Match may get 304 instead of 200. */
function isSuccess({ headers }: Request, { status }: Answer): boolean {
  const hasIt = headers.some(([name]) => name.toLowerCase() === 'if-none-match');
  return status === 200 || (status === 304 && hasIt);
}

function parse({ headers, body }: Answer): unknown {
  const isJson = headers.get('content-type')?.startsWith('application/json') ?? false;
  return isJson ? (JSON.parse(body.toString()) as unknown) : null;
}
