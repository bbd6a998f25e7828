import type { Document } from '../support/openapi.ts';
import type { TestClient } from '../support/service-client.ts';
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
  /** Requests; the n-th follows from the seed and what was answered before. */
  count: number;
  seed: number;
  /** A registered service. */
  client: TestClient;
}

export interface Report {
  /** Answers by what was done to the request and status. */
  seen: Map<string, number>;
  /** The first few things that were wrong, each with its request. */
  problems: string[];
}

const CONNECTIONS = 8;
const MAX_PROBLEMS = 10;

/** Sends requests that are made from the document, and holds every answer against it. */
export async function fuzz({ url, document, count, seed, client }: FuzzOptions): Promise<Report> {
  const contract = makeContract(document);
  const world = makeWorld(client);
  const report: Report = { seen: new Map(), problems: [] };
  let next = 0;

  async function work(): Promise<void> {
    const wire = openWire(url);
    while (next < count && report.problems.length < MAX_PROBLEMS) {
      const index = next++;
      const dice = makeDice(seed * 1_000_003 + index);
      const { known, request: good } = aRequest(dice, contract, world);
      const request = withMistake(good, dice, contract.required(known.operation));
      const bytes = bytesOf(request);
      // After bytes that are no request nobody knows where the next answer begins.
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
      ...told.map(() => 'it repeats what nobody may read'),
    ];
  }

  /** Some of what is no HTTP is still understood well enough to be answered as its operation answers. */
  function checkRaw(method: string, target: string, answer: Answer): string[] {
    const asNobody = contract.check(method, 'no path', answer);
    return asNobody.length === 0 ? [] : contract.check(method, target, answer);
  }

  /** Gives back what the request had borrowed, as it is now. */
  function settle({ session, succeed, name, method, body }: Request, answer: Answer): void {
    const isRight = answer.status === 200 && method !== 'HEAD';
    const after = isRight ? succeed(parse(answer), body) : session;
    // Whoever presents what was exchanged, or does something else, may have ended the session.
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

/** Whoever says that they have a document may be told that it is the same. */
function isSuccess({ headers }: Request, { status }: Answer): boolean {
  const hasIt = headers.some(([name]) => name.toLowerCase() === 'if-none-match');
  return status === 200 || (status === 304 && hasIt);
}

function parse({ headers, body }: Answer): unknown {
  const isJson = headers.get('content-type')?.startsWith('application/json') ?? false;
  return isJson ? (JSON.parse(body.toString()) as unknown) : null;
}
