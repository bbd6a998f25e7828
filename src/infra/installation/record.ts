import { AHEAD, LATE, SIGNED_INTERVAL } from '../../domain/access-tokens/key-lifecycle.ts';
import type { PrismaClient } from '../../generated/prisma/client.ts';
import { mapDatabaseErrors } from '../postgres/errors.ts';
import { RETIRED, signedWithin } from '../postgres/key-registry.ts';
import type { Fact, Facts } from './facts.ts';

type Values = Readonly<Record<string, string>>;

/** What the replicas agree on, timed by the database's clock. Everything may throw AuthError `unavailable`. */
export interface InstallationRecord {
  read(): Promise<Facts>;
  /** Records those that are missing. */
  add(values: Values): Promise<void>;
  /**
   * Shows that a replica with these values runs, and replaces values whose last replica has been gone for 70 s, or
   * whose time was written by a clock that was ahead.
   */
  hold(values: Values): Promise<void>;
  /** Records this value if the one on record is still `from`. @returns whether it was. */
  replace(name: string, from: string | null, to: string): Promise<boolean>;
  /** Lets a key go: no replica has to hold it. @returns false if no replica has ever recorded it. */
  retire(kid: string): Promise<boolean>;
  /** Whether a replica has signed with a key within the last 70 s: 1.0.0 records that, too. */
  isServed(): Promise<boolean>;
}

export function makeInstallationRecord(prisma: PrismaClient): InstallationRecord {
  const lists = (values: Values) => [Object.keys(values), Object.values(values)] as const;

  async function read(): Promise<Facts> {
    const rows = await prisma.$queryRaw<({ name: string } & Fact)[]>`
      SELECT name, value, (extract(epoch FROM statement_timestamp() - at) * 1000)::float8 AS age FROM installation`;
    return new Map(rows.map(({ name, value, age }) => [name, { value, age }]));
  }

  async function add(values: Values): Promise<void> {
    const [names, texts] = lists(values);
    await prisma.$executeRaw`
      INSERT INTO installation (name, value, at)
      SELECT name, value, statement_timestamp()
      FROM unnest(${names}::text[], ${texts}::text[]) AS given(name, value) ORDER BY name
      ON CONFLICT DO NOTHING`;
  }

  async function hold(values: Values): Promise<void> {
    const [names, texts] = lists(values);
    await prisma.$executeRaw`
      INSERT INTO installation AS known (name, value, at)
      SELECT name, value, statement_timestamp()
      FROM unnest(${names}::text[], ${texts}::text[]) AS given(name, value) ORDER BY name
      ON CONFLICT (name) DO UPDATE SET value = excluded.value, at = excluded.at
      WHERE known.at < statement_timestamp() -
          CASE WHEN known.value = excluded.value THEN ${SIGNED_INTERVAL}::float8 ELSE ${LATE}::float8 END * interval '1 millisecond'
        OR known.at > statement_timestamp() + ${AHEAD} * interval '1 millisecond'`;
  }

  async function replace(name: string, from: string | null, to: string): Promise<boolean> {
    const changed = await prisma.$executeRaw`
      INSERT INTO installation AS known (name, value, at)
      SELECT ${name}, ${to}, statement_timestamp()
      WHERE ${from}::text IS NULL OR EXISTS (SELECT FROM installation WHERE name = ${name})
      ON CONFLICT (name) DO UPDATE SET value = excluded.value, at = excluded.at WHERE known.value = ${from}`;
    return changed === 1;
  }

  async function retire(kid: string): Promise<boolean> {
    const [known] = await prisma.$queryRaw<{ found: boolean }[]>`
      SELECT EXISTS (SELECT FROM signing_keys WHERE kid = ${kid}) AS found`;
    if (known?.found !== true) return false;
    await add({ [`${RETIRED}${kid}`]: '' });
    return true;
  }

  async function isServed(): Promise<boolean> {
    const [row] = await prisma.$queryRaw<{ found: boolean }[]>`
      SELECT EXISTS (SELECT FROM signing_keys WHERE ${signedWithin(LATE)}) AS found`;
    return row?.found === true;
  }

  return {
    read: () => mapDatabaseErrors(read),
    add: (values) => mapDatabaseErrors(() => add(values)),
    hold: (values) => mapDatabaseErrors(() => hold(values)),
    replace: (name, from, to) => mapDatabaseErrors(() => replace(name, from, to)),
    retire: (kid) => mapDatabaseErrors(() => retire(kid)),
    isServed: () => mapDatabaseErrors(isServed),
  };
}
