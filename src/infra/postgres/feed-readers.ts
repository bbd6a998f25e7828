import {
  NAMELESS,
  readerName,
  SEEN,
  type EndedTarget,
  type FeedReaderStore,
  type JudgedReader,
  type ReaderKey,
  type ReaderRecord,
  type StalePolicy,
} from '../../domain/enforcement/ports.ts';
import type { Postgres } from './client.ts';
import { IS_STANDBY, mapDatabaseErrors, refuseStandby } from './errors.ts';
import { prepare, type Prepared } from './prepared.ts';

/** Unpublished tokens that one question follows. */
const MOST_PENDING = 10_000;

/** Who reads the feed. Statements that lock several rows take them in the order of their keys. */
export function makeFeedReaders({ run }: Pick<Postgres, 'run'>): FeedReaderStore {
  /** The one row of a statement that begins with IS_STANDBY. */
  const readOne = <Row extends object>(statement: Prepared, values: readonly unknown[]) =>
    mapDatabaseErrors(async () => {
      const [row] = refuseStandby(await run<Row & { isStandby: boolean }>(statement, values));
      return row;
    });
  const write = <Row extends object>(statement: Prepared, values: readonly unknown[]) =>
    mapDatabaseErrors(() => run<Row>(statement, values));

  return {
    async confirm(confirmations, at) {
      const column = <Value>(of: (each: (typeof confirmations)[number]) => Value) => confirmations.map(of);
      await write(CONFIRM, [
        column(({ serviceId }) => serviceId),
        column(({ reader }) => reader),
        column(({ position }) => position.epoch),
        column(({ position }) => position.seq),
        column(({ instance }) => instance),
        column(({ software }) => software),
        column(({ version }) => version),
        column(({ audience }) => audience),
        column(({ maxStaleness }) => maxStaleness),
        column(({ whenStale }) => whenStale),
        column(({ keys }) => keys.join(' ')),
        new Date(at),
      ]);
    },

    async note(connected, at) {
      const added = connected.filter(({ isNew }) => isNew);
      const known = connected.filter(({ isNew }) => !isNew);
      if (added.length > 0) await write(ADD, [...keysOf(added), new Date(at)]);
      if (known.length === 0) return [];
      const rows = await write<KeyRow>(SEE, [...keysOf(known), new Date(at)]);
      const found = new Set(rows.map((row) => readerName({ serviceId: row.client_id, reader: row.reader })));
      return known.filter((key) => !found.has(readerName(key)));
    },

    async fold(most) {
      const rows = await write<KeyRow & { seen_at: Date }>(EXCESS, [most]);
      if (rows.length === 0) return;
      const seen = [...rowKeys(rows), rows.map(({ seen_at: at }) => at)];
      // First, so that no reader is in neither.
      await write(FOLD, seen);
      await write(DROP, seen);
    },

    async removeSilent(silence, at) {
      await write(REMOVE_SILENT, [new Date(at), silence]);
    },

    remove: async ({ serviceId, reader }) => (await write(REMOVE, [serviceId, reader])).length > 0,

    forget: async (serviceId, instance) => (await write(FORGET, [serviceId, instance])).length,

    async tally({ epoch, seq }, at) {
      const row = await readOne<Record<'current' | 'behind' | 'silent' | 'nameless', number>>(TALLY, [
        epoch,
        seq,
        new Date(at),
      ]);
      const { current, behind, silent, nameless } = row;
      return { current, behind, silent, nameless };
    },

    async least(epoch, at) {
      const row = await readOne<{ seen: number; of_epoch: number; least: bigint | null }>(LEAST, [
        epoch,
        new Date(at),
      ]);
      if (row.seen === 0) return Infinity;
      return row.of_epoch < row.seen ? null : Number(row.least);
    },

    async ended(target) {
      const statement = 'all' in target ? EVERYTHING : 'token' in target ? ENDED_TOKEN : ENDED_TOKENS;
      const ids = 'all' in target ? [] : ['token' in target ? target.token : target.user];
      return endedOf(await readOne<EndedRow>(statement, ids));
    },

    async look(tokenIds) {
      const row = await readOne<{ now: Date; readers: string | null; published: string | null }>(LOOK, [
        tokenIds,
      ]);
      return {
        now: row.now.getTime(),
        readers: readersOf<JudgedRow>(row.readers).map(judgedOf),
        published: new Map(JSON.parse(row.published ?? '[]') as [number, number][]),
      };
    },

    async servicesWithoutReader(right) {
      const { services } = await readOne<{ services: string | null }>(WITHOUT_READER, [right]);
      return JSON.parse(services ?? '[]') as { serviceId: string; name: string }[];
    },

    async keyHolders() {
      const { holders } = await readOne<{ holders: string | null }>(KEY_HOLDERS, []);
      return new Map(JSON.parse(holders ?? '[]') as [string, number][]);
    },

    async page(after, limit) {
      const { serviceId, reader } = after ?? { serviceId: '', reader: '' };
      const { readers } = await readOne<{ readers: string | null }>(PAGE, [serviceId, reader, limit]);
      return readersOf<PageRow>(readers).map(recordOf);
    },
  };
}

/** By the later of this database's clock and the replica's. */
const later = (at: string) => `greatest(clock_timestamp(), ${at}::timestamptz)`;
/** Whether a row was seen lately, by the earlier of both clocks. */
const isSeen = (at: string) =>
  `seen_at >= least(clock_timestamp(), ${at}::timestamptz) - ${SEEN} * interval '1 millisecond'`;
/** Milliseconds since 1970. */
const ms = (time: string) => `floor(extract(epoch FROM ${time}) * 1000)::bigint`;

/** Services that are deleted meanwhile are left out: a row of theirs would fail the whole statement. */
const KNOWN = `known AS MATERIALIZED (
    SELECT client_id FROM service_clients WHERE client_id IN (SELECT client_id FROM given)
    ORDER BY client_id FOR KEY SHARE
  )`;

const CONFIRM = prepare(`
  WITH given AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[],
      $8::text[], $9::int[], $10::text[], $11::text[])
    AS given(client_id, reader, epoch, seq, instance, software, version, audience, max_staleness, when_stale, keys)
  ), ${KNOWN}
  INSERT INTO feed_readers (client_id, reader, seen_at, confirmed_at, epoch, seq, instance, software, version,
    audience, max_staleness, when_stale, keys)
  SELECT client_id, reader, ${later('$12')}, ${later('$12')}, epoch, seq, instance, software, version, audience,
    max_staleness, when_stale, string_to_array(keys, ' ')
  FROM given JOIN known USING (client_id) ORDER BY client_id COLLATE "C", reader COLLATE "C"
  ON CONFLICT (client_id, reader) DO UPDATE SET seen_at = EXCLUDED.seen_at, confirmed_at = EXCLUDED.confirmed_at,
    epoch = EXCLUDED.epoch, seq = EXCLUDED.seq, instance = EXCLUDED.instance, software = EXCLUDED.software,
    version = EXCLUDED.version, audience = EXCLUDED.audience, max_staleness = EXCLUDED.max_staleness,
    when_stale = EXCLUDED.when_stale, keys = EXCLUDED.keys`);

const ADD = prepare(`
  WITH given AS (SELECT * FROM unnest($1::text[], $2::text[]) AS given(client_id, reader)), ${KNOWN}
  INSERT INTO feed_readers (client_id, reader, seen_at)
  SELECT client_id, reader, ${later('$3')} FROM given JOIN known USING (client_id)
  ORDER BY client_id COLLATE "C", reader COLLATE "C"
  ON CONFLICT (client_id, reader) DO UPDATE SET seen_at = EXCLUDED.seen_at`);

const SEE = prepare(`
  WITH locked AS MATERIALIZED (
    SELECT client_id, reader FROM feed_readers JOIN unnest($1::text[], $2::text[]) AS given(client_id, reader)
      USING (client_id, reader)
    ORDER BY client_id, reader FOR NO KEY UPDATE OF feed_readers
  )
  UPDATE feed_readers SET seen_at = ${later('$3')} FROM locked
  WHERE (feed_readers.client_id, feed_readers.reader) = (locked.client_id, locked.reader)
  RETURNING feed_readers.client_id, feed_readers.reader`);

const EXCESS = prepare(`
  SELECT client_id, reader, seen_at FROM (
    SELECT client_id, reader, seen_at,
      row_number() OVER (PARTITION BY client_id ORDER BY seen_at DESC, reader) AS place
    FROM feed_readers WHERE reader <> '${NAMELESS}') AS placed
  WHERE place > $1`);

const FOLD = prepare(`
  WITH given AS (
    SELECT client_id, max(seen_at) AS seen_at
    FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS given(client_id, reader, seen_at) GROUP BY client_id
  ), ${KNOWN}
  INSERT INTO feed_readers (client_id, reader, seen_at)
  SELECT client_id, '${NAMELESS}', seen_at FROM given JOIN known USING (client_id) ORDER BY client_id COLLATE "C"
  ON CONFLICT (client_id, reader) DO UPDATE SET seen_at = greatest(feed_readers.seen_at, EXCLUDED.seen_at)`);

/** Not those that were seen meanwhile, nor those that somebody writes. */
const DROP = prepare(`
  DELETE FROM feed_readers USING (
    SELECT client_id, reader FROM feed_readers
      JOIN unnest($1::text[], $2::text[], $3::timestamptz[]) AS given(client_id, reader, seen_at)
      USING (client_id, reader, seen_at)
    FOR UPDATE OF feed_readers SKIP LOCKED) AS locked
  WHERE (feed_readers.client_id, feed_readers.reader) = (locked.client_id, locked.reader)`);

const REMOVE_SILENT = prepare(`
  DELETE FROM feed_readers WHERE (client_id, reader) IN (
    SELECT client_id, reader FROM feed_readers
    WHERE seen_at < least(clock_timestamp(), $1::timestamptz) - $2::float8 * interval '1 millisecond'
    FOR UPDATE SKIP LOCKED)`);

const REMOVE = prepare('DELETE FROM feed_readers WHERE (client_id, reader) = ($1, $2) RETURNING reader');

const FORGET = prepare(`
  WITH locked AS MATERIALIZED (
    SELECT client_id, reader FROM feed_readers WHERE client_id = $1 AND ($2::text IS NULL OR instance = $2)
    ORDER BY client_id, reader FOR UPDATE
  )
  DELETE FROM feed_readers USING locked
  WHERE (feed_readers.client_id, feed_readers.reader) = (locked.client_id, locked.reader)
  RETURNING feed_readers.reader`);

const TALLY = prepare(`
  SELECT ${IS_STANDBY.text},
    count(*) FILTER (WHERE is_named AND is_seen AND has_confirmed)::int AS current,
    count(*) FILTER (WHERE is_named AND is_seen AND NOT has_confirmed)::int AS behind,
    count(*) FILTER (WHERE is_named AND NOT is_seen)::int AS silent,
    count(*) FILTER (WHERE NOT is_named)::int AS nameless
  FROM (
    SELECT reader <> '${NAMELESS}' AS is_named, ${isSeen('$3')} AS is_seen,
      coalesce(epoch = $1 AND seq >= $2::bigint, false) AS has_confirmed
    FROM feed_readers) AS judged`);

const LEAST = prepare(`
  SELECT ${IS_STANDBY.text}, count(*)::int AS seen, count(*) FILTER (WHERE epoch = $1)::int AS of_epoch,
    min(seq) AS least
  FROM feed_readers WHERE reader <> '${NAMELESS}' AND ${isSeen('$2')}`);

/** What has ended among some tokens. The publication is dated by the later of two clocks: a replica's and ours. */
const ended = (tokens: string) => `
  SELECT ${IS_STANDBY.text}, max(revoked_at) AS ended_at,
    max(greatest(revoked_at, settled_at)) FILTER (WHERE NOT pending) AS published_at,
    json_agg(id) FILTER (WHERE pending)::text AS pending,
    coalesce(bool_or(type = 'llt' AND expires_at IS NULL), false) AS lasts,
    max(expires_at) FILTER (WHERE type = 'llt') AS long_lived_until
  FROM tokens WHERE ${tokens} AND revoked_at IS NOT NULL`;
const ENDED_TOKEN = prepare(ended('id = $1::bigint'));
const ENDED_TOKENS = prepare(ended('user_id = $1::bigint'));

/** Long-lived tokens are among them that never expire, for all that anybody knows. */
const EVERYTHING = prepare(`
  SELECT ${IS_STANDBY.text}, clock_timestamp() AS ended_at, clock_timestamp() AS published_at, true AS lasts,
    NULL::timestamptz AS long_lived_until, (
      SELECT json_agg(id) FROM (SELECT id FROM tokens WHERE pending LIMIT ${MOST_PENDING + 1}) AS unpublished
    )::text AS pending`);

const JUDGED = `client_id, name, reader, instance, epoch, seq, max_staleness, when_stale, ${ms('seen_at')}`;

const LOOK = prepare(`
  SELECT ${IS_STANDBY.text}, clock_timestamp() AS now, (
    SELECT json_agg(json_build_array(${JUDGED}))
    FROM feed_readers JOIN service_clients USING (client_id)
  )::text AS readers, (
    SELECT json_agg(json_build_array(id, ${ms('greatest(revoked_at, settled_at)')}))
    FROM tokens WHERE id = ANY($1::bigint[]) AND NOT pending
  )::text AS published`);

const PAGE = prepare(`
  SELECT ${IS_STANDBY.text}, json_agg(json_build_array(${JUDGED}, software, feed_readers.version, feed_readers.audience,
    keys, ${ms('confirmed_at')}) ORDER BY client_id, reader)::text AS readers
  FROM (
    SELECT * FROM feed_readers WHERE (client_id, reader) > ($1, $2) ORDER BY client_id, reader LIMIT $3
  ) AS feed_readers JOIN service_clients USING (client_id)`);

const WITHOUT_READER = prepare(`
  SELECT ${IS_STANDBY.text}, json_agg(json_build_object('serviceId', client_id, 'name', name) ORDER BY name)::text
    AS services
  FROM service_clients
  WHERE disabled_at IS NULL AND $1 = ANY(rights)
    AND NOT EXISTS (SELECT FROM feed_readers WHERE feed_readers.client_id = service_clients.client_id)`);

const KEY_HOLDERS = prepare(`
  SELECT ${IS_STANDBY.text}, json_agg(json_build_array(kid, readers))::text AS holders
  FROM (SELECT kid, count(*) AS readers FROM feed_readers, unnest(keys) AS kid GROUP BY kid) AS held`);

interface KeyRow {
  client_id: string;
  reader: string;
}

interface EndedRow {
  ended_at: Date | null;
  published_at: Date | null;
  pending: string | null;
  lasts: boolean;
  long_lived_until: Date | null;
}

type JudgedRow = [
  serviceId: string,
  name: string,
  reader: string,
  instance: string | null,
  epoch: string | null,
  seq: number | null,
  maxStaleness: number | null,
  whenStale: StalePolicy | null,
  seenAt: number,
];
type PageRow = [
  ...JudgedRow,
  software: string | null,
  version: string | null,
  audience: string | null,
  keys: string[],
  confirmedAt: number | null,
];

function keysOf(keys: readonly ReaderKey[]): [string[], string[]] {
  return [keys.map(({ serviceId }) => serviceId), keys.map(({ reader }) => reader)];
}

function rowKeys(rows: readonly KeyRow[]): [string[], string[]] {
  return [rows.map((row) => row.client_id), rows.map(({ reader }) => reader)];
}

function endedOf(row: EndedRow): EndedTarget | null {
  if (row.ended_at === null) return null;
  const pending = JSON.parse(row.pending ?? '[]') as number[];
  return {
    endedAt: row.ended_at.getTime(),
    publishedAt: row.published_at?.getTime() ?? 0,
    pending: pending.length > MOST_PENDING ? null : pending,
    longLivedUntil: row.lasts ? null : (row.long_lived_until?.getTime() ?? 0),
  };
}

function readersOf<Row>(json: string | null): Row[] {
  return JSON.parse(json ?? '[]') as Row[];
}

function judgedOf(row: JudgedRow): JudgedReader {
  const [serviceId, name, reader, instance, epoch, seq, maxStaleness, whenStale, seenAt] = row;
  const position = epoch === null || seq === null ? null : { epoch, seq };
  return { serviceId, name, reader, instance, position, maxStaleness, whenStale, seenAt };
}

function recordOf(row: PageRow): ReaderRecord {
  const [, , , , , , , , , software, version, audience, keys, confirmedAt] = row;
  const [serviceId, name, reader, instance, epoch, seq, maxStaleness, whenStale, seenAt] = row;
  const judged = judgedOf([serviceId, name, reader, instance, epoch, seq, maxStaleness, whenStale, seenAt]);
  return { ...judged, software, version, audience, keys, confirmedAt };
}
