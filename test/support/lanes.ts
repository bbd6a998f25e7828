import type { Test } from 'tap';
import { LANE_PLACES } from '../../src/domain/limits/lanes.ts';
import type { TestApp } from './app.ts';
import { aClient, waitingForLocks } from './begun.ts';
import type { call } from './client.ts';

/** How many requests of one turn a lane takes: one is under way. */
export const ADMITTED = LANE_PLACES + 1;
/** Nothing waits until it is out of patience. */
export const PATIENT = { DATABASE_POOL: '5', DATABASE_TIMEOUT: '60000' };

/** Requests at once, with what they were answered so far. */
export function sent(requests: Promise<{ status: number; body: string }>[]) {
  const answers: { status: number; body: string }[] = [];
  const all = Promise.all(requests.map(async (each) => answers.push(await each)));
  return {
    answers,
    refused: () => answers.filter(({ status, body }) => status === 429 && body.includes('"lane"')).length,
    statuses: async () => {
      await all;
      return answers.map(({ status }) => status).sort();
    },
  };
}

type Sent = Awaited<ReturnType<typeof call>>;
export const answerOf = (answer: Promise<Sent>) =>
  answer.then(({ statusCode, body }) => ({ status: statusCode, body }));

/** Holds rows, as a transaction of another replica does. */
export async function aHolder(t: Test, { databaseUrl }: TestApp) {
  const [locks, watch] = [await aClient(t, databaseUrl), await aClient(t, databaseUrl)];
  return {
    hold: async (...statements: string[]) => {
      await locks.query('BEGIN');
      for (const statement of statements) await locks.query(`${statement} FOR NO KEY UPDATE`);
    },
    release: () => locks.query('COMMIT'),
    waiting: () => waitingForLocks(watch),
  };
}

export const rowOf = (userId: number) => `SELECT FROM users WHERE id = ${userId}`;
