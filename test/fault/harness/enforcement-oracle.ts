import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { claimsOf } from '../../support/client.ts';
import { outcomeOf, type Reader } from './verified-sessions.ts';

/** What Latchkey answers about who has enforced a revocation. */
export interface EnforcementAnswer {
  ended_at: string | null;
  done: boolean;
  counts: Record<'enforced' | 'bounded' | 'pending' | 'unknown', number>;
  waiting: { name: string; instance: string | null; state: string; until: string | null }[];
}

interface Named {
  name: string;
  instance: string | null;
}

/** Whether a question is about the token, or about all that has ended. */
function isAbout(query: string, token: string): boolean {
  const { sid, sub } = claimsOf(token);
  return [`token=${String(sid)}`, `user=${String(sub)}`, 'all=true'].includes(query.split('&')[0] ?? '');
}

/** Whoever states no instance goes by its service. */
const nameOf = ({ name, instance }: Named) => instance ?? name;

/**
 * Asks all the time who has enforced what has ended, and gives the tokens to each reader that an answer calls `enforced`
 * or `bounded`: it may not accept one, then or later.
 * @param urls of the replicas, of which one is asked at a time.
 */
export function enforcementOracle(t: Test, urls: () => string[], authorization: string) {
  const readers = new Map<string, Reader>();
  const ended: string[] = [];
  /** How often an answer called the reader `enforced` or `bounded`. */
  const called = new Map<string, number>();
  const accepted: string[] = [];
  const checks: Promise<void>[] = [];
  let looks = 0;
  let isStopped = false;

  async function get<Body>(path: string): Promise<Body | null> {
    const each = urls();
    const url = each[looks % each.length] ?? '';
    const headers = { authorization };
    const signal = AbortSignal.timeout(40_000);
    const response = await fetch(`${url}/api/auth/revocations/${path}`, { headers, signal }).catch(
      () => null,
    );
    const body = await response?.text().catch(() => null);
    if (response?.status === 200 && body) return JSON.parse(body) as Body;
    // A dead replica, or one that may not serve.
    if (response && response.status !== 503) throw new Error(`${path}: ${response.status} ${body ?? ''}`);
    return null;
  }

  const listReaders = async () => (await get<{ readers: Named[] }>('readers'))?.readers ?? null;

  /** @param query by default, each kind of target in turn */
  async function look(query = targetOf(ended.at(-1))): Promise<EnforcementAnswer | null> {
    looks++;
    const known = [...ended];
    const listed = await listReaders();
    const answer = await get<EnforcementAnswer>(`enforcement?${query}`);
    if (!listed || !answer) return null;
    if (answer.ended_at === null) accepted.push(`${query} has not ended`);
    const asked = known.filter((token) => isAbout(query, token));
    const waiting = new Set(answer.waiting.map(nameOf));
    for (const name of new Set(listed.map(nameOf))) {
      const reader = readers.get(name);
      if (!reader || waiting.has(name) || answer.ended_at === null) continue;
      called.set(name, (called.get(name) ?? 0) + 1);
      for (const token of [asked.at(-1), asked[Math.floor(Math.random() * asked.length)]])
        if (token !== undefined) checks.push(refuses(name, reader, token, query));
    }
    return answer;
  }

  function targetOf(token: string | undefined): string {
    const { sid, sub } = token === undefined ? {} : claimsOf(token);
    const targets = ['all=true', `token=${String(sid)}`, `user=${String(sub)}`];
    return `${targets[looks % targets.length] ?? ''}&wait=${looks % 5}`;
  }

  /** A reader that is paused answers when it goes on. */
  async function refuses(name: string, reader: Reader, token: string, query: string): Promise<void> {
    if ((await outcomeOf(reader, token)) === 'good')
      accepted.push(`${name} accepts ${String(claimsOf(token).sid)} after ${query}`);
  }

  async function watch(): Promise<void> {
    while (!isStopped) {
      if (ended.length > 0) await look();
      await sleep(100);
    }
  }

  const watching = watch();
  const stop = async () => {
    isStopped = true;
    await watching;
    await Promise.all(checks);
  };
  t.teardown(stop);

  return {
    /** @param name its instance, or the name of its service if it states none. */
    add: (name: string, reader: Reader) => void readers.set(name, reader),
    /** These tokens have ended. */
    note: (tokens: readonly string[]) => void ended.push(...tokens),
    /** Those that Latchkey knows. */
    readers: async () => (await listReaders()) ?? [],
    look,
    /** Ends the questions. @param names of the readers that must have been called `enforced` or `bounded` */
    async conclude(names: readonly string[]): Promise<void> {
      await stop();
      for (const name of names)
        t.ok((called.get(name) ?? 0) > 0, `${name} was called ${called.get(name) ?? 0} times`);
      t.strictSame(accepted, [], 'none of them accepted an ended token');
    },
  };
}

export type EnforcementOracle = ReturnType<typeof enforcementOracle>;
