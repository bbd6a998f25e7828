import { setTimeout as sleep } from 'node:timers/promises';
import { anAccount, type Pair } from '../../support/client.ts';
import type { Service } from '../../support/service.ts';
import { visitor, type Visitor } from './visitors.ts';

/** People who use all operations again and again, with the usual mistakes. */
export function ordinaryDay(replicas: readonly Service[]): { over(): Promise<void> } {
  const stopping = new AbortController();
  const people = replicas.flatMap((replica, i) =>
    [0, 1].map(async (j) => {
      const who = visitor(replica.url, `203.0.113.${10 * i + j}`);
      while (!stopping.signal.aborted) {
        await someUse(who);
        await sleep(300);
      }
    }),
  );
  return {
    async over() {
      stopping.abort();
      await Promise.all(people);
    },
  };
}

async function someUse(who: Visitor): Promise<void> {
  const account = anAccount();
  await who.signUp(account);
  await who.logIn(account.username, 'a slip of the finger');
  let pair = (await (await who.logIn(account.username)).json()) as Pair;
  for (let i = 0; i < 3; i++) {
    expect(200, await who.verify(pair.access_token));
    const { refresh_token: used } = pair;
    await pairFrom(who.refresh(used));
    // A second tab gets the same pair.
    pair = await pairFrom(who.refresh(used));
  }
  const { access_token: access } = pair;
  const created = await who.ask('POST', '/api/auth/llt', access, { device: 'Kitchen tablet' });
  const { id, longlived_token: llt } = (await created.json()) as { id: number; longlived_token: string };
  expect(200, await who.verify(llt));
  expect(200, (await who.ask('GET', '/api/user', access)).status);
  expect(200, (await who.ask('DELETE', `/api/auth/llt/${id}`, access)).status);
  expect(200, (await who.ask('DELETE', '/api/auth', access)).status);
  expect(401, await who.verify(access));
  expect(401, await who.verify('what is this'));
}

/** @throws Error if the answer is not a pair. */
export async function pairFrom(answer: Promise<Response>): Promise<Pair> {
  const response = await answer;
  if (response.status !== 200) throw new Error(`no pair: ${response.status} ${await response.text()}`);
  return (await response.json()) as Pair;
}

/** @throws Error if the status differs. */
export function expect(status: number, actual: number): void {
  if (actual !== status) throw new Error(`answered ${actual}, not ${status}`);
}
