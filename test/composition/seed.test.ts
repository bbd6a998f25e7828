import { test } from 'tap';
import { makeFillWithSeed } from '../../src/composition/seed.ts';
import type { SeededService } from '../../src/config/seed.ts';
import type { AuditEvent } from '../../src/domain/audit/event.ts';
import { AuthError } from '../../src/domain/errors.ts';
import type { RegisteredService } from '../../src/domain/services/registered-service.ts';
import type { Account, AccountRequest } from '../../src/domain/users/account.ts';
import { refuseTaken, type UniqueField } from '../../src/domain/users/taken.ts';

const userNamed = (username: string): AccountRequest => ({
  username,
  name: username,
  email: `${username}@example.com`,
});

const serviceNamed = (name: string): SeededService => ({
  name,
  serviceId: `id of ${name}`,
  secret: 'known-to-everyone',
  rights: [],
  audience: null,
  roles: [],
});

/**
 * In its database is the service orders; the id of billing belongs to another one.
 * @param steps what happens to one user after the other.
 */
function aWorld(steps: (AuthError | Error | UniqueField[] | null)[], isMarked = true) {
  const [events, warnings, lines, added]: [AuditEvent[], object[], object[], string[]] = [[], [], [], []];
  const fill = makeFillWithSeed({
    seed: {
      users: ['ada', 'bob', 'eve'].map(userNamed),
      services: ['mails', 'orders', 'billing'].map(serviceNamed),
    },
    mark: { set: () => Promise.resolve(isMarked), isSet: () => Promise.resolve(isMarked) },
    createAccount: async ({ username }) => {
      const step = added.includes(username) ? (['username'] as UniqueField[]) : (steps.shift() ?? null);
      if (step instanceof Error) throw step;
      refuseTaken(step ?? []);
      added.push(username);
      return Promise.resolve({} as Account);
    },
    services: {
      add: ({ name }) => Promise.resolve(name === 'mails'),
      list: () => Promise.resolve([{ name: 'orders' } as RegisteredService]),
    },
    clock: { now: () => 0 },
    audit: (event) => void events.push(event),
    logger: {
      info: (fields: object) => void lines.push(fields),
      warn: (fields: object) => void warnings.push(fields),
    },
    pause: () => Promise.resolve(),
  });
  return { fill, added, events, warnings, lines };
}

test('goes on after an outage, and adds nobody twice', async (t) => {
  const away = new AuthError('unavailable');
  const { fill, added, warnings } = aWorld([null, away, new AuthError('overloaded'), null]);
  await fill();
  t.strictSame(added, ['ada', 'bob', 'eve']);
  t.strictSame(warnings.slice(0, 2), [{ reason: 'unavailable' }, { reason: 'overloaded' }]);
});

test('names that exist stay as they are, and only what another one has is worth a warning', async (t) => {
  const { fill, added, events, warnings, lines } = aWorld([['username', 'email'], ['email'], null]);
  await fill();
  t.strictSame(added, ['eve']);
  t.strictSame(warnings, [{ user: 1, taken: ['email'] }, { service: 2 }]);
  t.strictSame(lines, [{ added: { users: 1, services: 1 }, kept: { users: 1, services: 1 } }]);
  t.match(events, [{ event: 'database.seeded', users: 1, services: 1 }]);
});

test('adds nothing to a database that has accounts and no mark, and hides no mistake', async (t) => {
  const filled = aWorld([], false);
  await t.rejects(filled.fill(), { name: 'StartError', message: /^SEED_FILE: the database holds accounts/ });
  t.strictSame(filled.added, []);
  await t.rejects(aWorld([new Error('a bug')]).fill(), { message: 'a bug' });
});
