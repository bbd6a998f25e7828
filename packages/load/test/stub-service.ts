import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Test } from 'tap';
import { listen } from '../../../test/support/listen.ts';

/** What the stub does wrong. */
export type PlantedFault =
  | 'accepts ended tokens'
  | 'refuses good tokens'
  | 'fails at logouts'
  | 'repeats pairs'
  | 'signs out'
  | 'logs in as another user'
  | 'refreshes as another user'
  | 'verifies as another user'
  | 'sends tokens that are none'
  | 'none';

interface Session {
  username: string;
  latest: number;
  parent: number;
  isOver: boolean;
}

interface Presented {
  sub: string;
  sid: number;
  gen: number;
}

/**
 * A service with the six operations' happy paths and retries, and one planted fault. Its tokens are not signed.
 * @returns its URL.
 */
export function startStub(t: Test, fault: PlantedFault): Promise<string> {
  const sessions = new Map<number, Session>();
  const users = new Map<string, number>();
  let [nextSession, nextGeneration, opened, refreshes, verifies] = [1, 1, 0, 0, 0];

  function pairOf(sid: number, gen: number, username: string) {
    const id = users.get(username) ?? users.set(username, users.size + 1).size;
    return pair({ sid, gen, sub: String(id) }, { id, username });
  }

  function open(username: string) {
    opened++;
    const isOther = opened % 5 === 0;
    const [sid, gen] = [nextSession++, nextGeneration++];
    const owner = fault === 'logs in as another user' && isOther ? 'load-another' : username;
    sessions.set(sid, { username: owner, latest: gen, parent: 0, isOver: false });
    if (fault === 'sends tokens that are none' && isOther)
      return { ...pairOf(sid, gen, owner), access_token: 'none', refresh_token: 'none' };
    return pairOf(sid, gen, owner);
  }

  function refresh({ sid, gen }: Presented) {
    const session = sessions.get(sid);
    refreshes++;
    if (!session || session.isOver || (fault === 'signs out' && refreshes % 5 === 0)) return null;
    const { username } = session;
    if (fault === 'repeats pairs' && refreshes % 5 === 0) return pairOf(sid, gen, username);
    // A retry after a lost answer.
    if (gen === session.parent) return pairOf(sid, session.latest, username);
    if (gen !== session.latest) return null;
    session.parent = gen;
    session.latest = nextGeneration++;
    const isOther = fault === 'refreshes as another user' && refreshes % 5 === 0;
    return pairOf(sid, session.latest, isOther ? 'load-another' : username);
  }

  function isGood({ sid, gen }: Presented): boolean {
    const session = sessions.get(sid);
    if (fault === 'refuses good tokens' && ++verifies % 5 === 0) return false;
    return fault === 'accepts ended tokens' || (session?.isOver === false && gen >= session.latest);
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    const presented = claimsOf(request);
    const line = `${request.method ?? ''} ${request.url ?? ''}`;
    if (line.startsWith('POST'))
      send(response, 200, open((JSON.parse(body) as { username: string }).username));
    else if (!presented) send(response, 401);
    else if (line === 'GET /api/auth/refresh') {
      const pair = refresh(presented);
      send(response, pair ? 200 : 401, pair ?? undefined);
    } else if (line === 'GET /api/auth/verify') {
      const { sub } = presented;
      response.setHeader('x-auth-user', fault === 'verifies as another user' ? `${sub}1` : sub);
      send(response, isGood(presented) ? 200 : 401);
    } else if (fault === 'fails at logouts') send(response, 500);
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

function pair(ids: { sid: number; gen: number; sub: string }, user: { id: number; username: string }) {
  const iat = Math.floor(Date.now() / 1000);
  const claims = { ...ids, jti: `${ids.sid}.${ids.gen}`, iat, exp: iat + 900 };
  const token = (typ: string) =>
    [{ typ }, claims, {}].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
  return {
    access_token: token('at+jwt'),
    refresh_token: token('rt+jwt'),
    user: { ...user, name: 'Load', created_at: '2026-01-01T00:00:00.000Z' },
  };
}
