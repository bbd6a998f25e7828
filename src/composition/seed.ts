import type { FastifyBaseLogger } from 'fastify';
import type { Seed } from '../config/seed.ts';
import type { Audit } from '../domain/audit/event.ts';
import { NO_REQUEST } from '../domain/audit/source.ts';
import type { Clock } from '../domain/clock.ts';
import { AuthError, reasonOf } from '../domain/errors.ts';
import type { ServiceStore } from '../domain/services/ports.ts';
import { hashSecret } from '../domain/services/secret.ts';
import type { CreateAccount } from '../domain/users/create-account.ts';
import { takenIn, type UniqueField } from '../domain/users/taken.ts';
import type { SeedMark } from '../infra/installation/seed-mark.ts';
import { StartError } from '../runtime/start-error.ts';

interface SeedParts {
  seed: Seed;
  mark: SeedMark;
  createAccount: CreateAccount;
  services: Pick<ServiceStore, 'add' | 'list'>;
  clock: Pick<Clock, 'now'>;
  audit: Audit;
  logger: Pick<FastifyBaseLogger, 'info' | 'warn'>;
  pause: (ms: number) => Promise<void>;
}

/** Refusals that end by themselves, so the seed is tried again. */
const PASSING: readonly string[] = ['unavailable', 'overloaded'];
/** Milliseconds until the next attempt. */
const RETRY = 1000;

const NOT_EMPTY =
  'SEED_FILE: the database holds accounts or services that no seed has added, so this one adds nothing: use an empty database, or leave SEED_FILE out';

/**
 * Fills the database with SEED_FILE, before this replica listens. Users and services that exist stay as they
 * are, so this replica completes what one that was killed, or starts at the same time, has begun.
 */
export function makeFillWithSeed({
  seed,
  mark,
  createAccount,
  services,
  clock,
  audit,
  logger,
  pause,
}: SeedParts) {
  /** @throws StartError if the database is not empty, and no seed has filled it before. */
  return async function fillWithSeed(): Promise<void> {
    let failure: string | null = null;
    for (;;) {
      try {
        await fill();
        return;
      } catch (error) {
        if (!(error instanceof AuthError && PASSING.includes(error.code))) throw error;
        const reason = reasonOf(error);
        if (reason !== failure) logger.warn({ reason }, 'cannot add the seed yet: nothing is served');
        failure = reason;
      }
      await pause(RETRY);
    }
  };

  async function fill(): Promise<void> {
    // The mark comes first, so that production never serves a database that a seed has only half filled.
    if (!(await mark.set())) throw new StartError(NOT_EMPTY);
    const added = { users: 0, services: 0 };
    const kept = { users: 0, services: 0 };
    for (const [i, user] of seed.users.entries()) {
      const taken = await createAccount(user, ['', ''], null, NO_REQUEST).then(() => NOTHING, takenOrThrow);
      if (taken.length === 0) added.users++;
      // A user whose username exists is there already. Anything else that is taken belongs to another
      // account.
      else if (taken.includes('username')) kept.users++;
      else
        logger.warn({ user: i, taken }, 'a user of the seed is not added: another account has what it wants');
    }
    for (const [i, { secret, ...service }] of seed.services.entries()) {
      const record = { ...service, secretHash: hashSecret(secret), createdAt: clock.now() };
      if (await services.add(record)) added.services++;
      else if ((await services.list()).some(({ name }) => name === service.name)) kept.services++;
      else
        logger.warn({ service: i }, 'a service of the seed is not added: another one has its id or audience');
    }
    if (added.users + added.services > 0) audit({ event: 'database.seeded', ...added }, NO_REQUEST);
    logger.info({ added, kept }, 'seeded');
  }
}

const NOTHING: readonly UniqueField[] = [];

function takenOrThrow(error: unknown): readonly UniqueField[] {
  const taken = takenIn(error);
  if (taken.length === 0) throw error;
  return taken;
}
