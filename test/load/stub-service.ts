import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Test } from 'tap';
import { listen } from '../support/listen.ts';

/** What the stub does wrong. */
export type PlantedFault =
  'accepts ended tokens' | 'repeats session ids' | 'repeats pairs' | 'signs out' | 'none';

interface Session {
  latest: number;
  parent: number;
  isOver: boolean;
}

interface Presented {
  sid: number;
  gen: number;
}

/**
 * A service with the six operations' happy paths and retries, and one planted fault. Its tokens are not signed.
 * @returns its URL.
 */
export function startStub(t: Test, fault: PlantedFault): Promise<string> {
  const sessions = new Map<number, Session>();
  let [nextSession, nextGeneration, users, refreshes] = [1, 1, 0, 0];

  function open() {
    const sid = fault === 'repeats session ids' && nextSession > 3 ? 1 : nextSession++;
    const gen = nextGeneration++;
    sessions.set(sid, { latest: gen, parent: 0, isOver: false });
    return pairOf(sid, gen, ++users);
  }

  function refresh({ sid, gen }: Presented) {
    const session = sessions.get(sid);
    refreshes++;
    if (!session || session.isOver || (fault === 'signs out' && refreshes % 5 === 0)) return null;
    if (fault === 'repeats pairs' && refreshes % 5 === 0) return pairOf(sid, gen, sid);
    // A retry after a lost answer.
    if (gen === session.parent) return pairOf(sid, session.latest, sid);
    if (gen !== session.latest) return null;
    session.parent = gen;
    session.latest = nextGeneration++;
    return pairOf(sid, session.latest, sid);
  }

  function isGood({ sid, gen }: Presented): boolean {
    const session = sessions.get(sid);
    return fault === 'accepts ended tokens' || (session?.isOver === false && gen >= session.latest);
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await text(request);
    const presented = claimsOf(request);
    const line = `${request.method ?? ''} ${request.url ?? ''}`;
    if (line.startsWith('POST')) send(response, 200, open());
    else if (!presented) send(response, 401);
    else if (line === 'GET /api/auth/refresh') {
      const pair = refresh(presented);
      send(response, pair ? 200 : 401, pair ?? undefined);
    } else if (line === 'GET /api/auth/verify') send(response, isGood(presented) ? 200 : 401);
    else {
      const session = sessions.get(presented.sid);
      if (session) session.isOver = true;
      send(response, 200, { msg: 'logged out' });
    }
  }

  return listen(
    t,
    createServer((request, response) => void answer(request, response)),
  );
}

function send(response: ServerResponse, status: number, body?: object): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(body && JSON.stringify(body));
}

function claimsOf({ headers }: IncomingMessage): Presented | null {
  const payload = headers.authorization?.split('.')[1];
  if (payload === undefined) return null;
  return JSON.parse(Buffer.from(payload, 'base64url').toString()) as Presented;
}

function pairOf(sid: number, gen: number, userId: number) {
  const claims = { sid, gen, jti: `${sid}.${gen}`, exp: Math.floor(Date.now() / 1000) + 900 };
  const token = (typ: string) =>
    [{ typ }, claims, {}].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
  return {
    access_token: token('at+jwt'),
    refresh_token: token('rt+jwt'),
    user: { id: userId, username: 'load', name: 'Load', created_at: '2026-01-01T00:00:00.000Z' },
  };
}
