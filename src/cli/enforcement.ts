import { loadSettings, type Config, type Environment } from '../config/config.ts';
import { systemClock } from '../runtime/system-clock.ts';
import { withTimeout } from '../runtime/with-timeout.ts';
import { makeEnforcement, type EnforcementAnswer } from '../domain/enforcement/enforcement.ts';
import { STATES } from '../domain/enforcement/judge.ts';
import { NAMELESS, type ReaderRecord, type Target } from '../domain/enforcement/ports.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import { makeFeedReaderStore } from '../infra/postgres/feed-readers.ts';
import { CommandError, isoOrNull } from './command.ts';
import { withPostgres } from './database.ts';

/** The parts that answer which readers refuse what has ended, as the service has them. */
export interface OpenedEnforcement {
  postgres: Postgres;
  /** @param wait seconds. @throws AuthError `unavailable` */
  ask: Ask;
}

export type Ask = (target: Target, wait: number) => Promise<EnforcementAnswer>;

/** For `--json`: the fields of `GET /api/auth/revocations/enforcement`. */
export function forMachines({ endedAt, published, done, counts, waiting }: EnforcementAnswer) {
  return {
    ended_at: isoOrNull(endedAt),
    published: isoOrNull(published),
    done,
    counts,
    waiting: waiting.map(({ reader, state, until }) => ({
      ...namesOf(reader),
      state,
      until: isoOrNull(until),
    })),
  };
}

/** For the terminal. */
export function describeAnswer({ endedAt, published, done, counts, waiting }: EnforcementAnswer): string[] {
  const all = countAll(counts);
  const open = counts.pending + counts.unknown;
  const verdict = done
    ? all === 0
      ? 'done, but no reader is known, so this speaks for nobody'
      : `done: ${readers(all)} refuse it, or are bounded`
    : endedAt === null
      ? 'not done: nothing of it has ended, or it is unknown'
      : published === null
        ? 'not done: a replica has yet to publish it'
        : `not done: ${open} of ${readers(all)} may still accept it`;
  const left = open - waiting.length;
  return [
    verdict,
    STATES.map((state) => `${state} ${counts[state]}`).join(', '),
    ...waiting.map(({ reader, state, until }) => {
      const end = until === null ? 'with no end' : `until ${isoOrNull(until) ?? ''}`;
      return `  ${reader.name}  ${labelOf(reader)}  ${state} ${end}`;
    }),
    ...(left > 0 ? [`  and ${left} more`] : []),
  ];
}

export function countAll(counts: EnforcementAnswer['counts']): number {
  return STATES.reduce((sum, state) => sum + counts[state], 0);
}

function readers(count: number): string {
  return count === 1 ? '1 reader' : `${count} readers`;
}

/** How people tell a reader from others of its service. */
export function labelOf({ reader, instance }: Pick<ReaderRecord, 'reader' | 'instance'>): string {
  return reader === NAMELESS ? 'nameless' : (instance ?? reader);
}

/** How programs do. */
export function namesOf({ serviceId, name, reader, instance }: ReaderRecord) {
  return { client_id: serviceId, name, reader: reader === NAMELESS ? null : reader, instance };
}
