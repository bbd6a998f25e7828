import { parseServiceName } from '../domain/services/registered-service.ts';
import { LONGEST_WAIT } from '../domain/enforcement/enforcement.ts';
import type { ReaderPage } from '../domain/enforcement/list-readers.ts';
import type { Target } from '../domain/enforcement/ports.ts';
import { makeFeedReaders } from '../infra/postgres/feed-readers.ts';
import { makeServiceStore } from '../infra/postgres/service-store.ts';
import { UsageError, type Values } from './arguments.ts';
import { CommandError, isoOrNull, type Command } from './command.ts';
import { withPostgres } from './database.ts';
import {
  countAll,
  describeAnswer,
  forMachines,
  labelOf,
  namesOf,
  readReaders,
  withEnforcement,
} from './enforcement.ts';

/** `latchkey readers …`: who follows the feed, and who refuses what has ended. */
export const run: Command = async (invocation) => {
  const [action, ...words] = invocation.words;
  if (action === 'list' && words.length === 0) return list(invocation);
  if (action === 'enforced' && words.length === 0) return enforced(invocation);
  if (action === 'forget' && words.length >= 1 && words.length <= 2) return forget({ ...invocation, words });
  throw new UsageError('use readers list, readers enforced, or readers forget NAME [INSTANCE]');
};

/** `latchkey readers list`. */
const list: Command = async ({ env, values: { service, key, below } }) => {
  const isOlder = below === undefined ? () => true : olderThan(below);
  const { readers, withoutReader } = await readReaders(env);
  const isShown = ({ reader }: ListedReader) =>
    (service === undefined || reader.name === service) &&
    (key === undefined || reader.keys.includes(key)) &&
    isOlder(reader.version);
  const shown = readers.filter(isShown);
  const without = withoutReader.filter(({ name }) => service === undefined || name === service);
  const isWhole = key === undefined && below === undefined;
  return {
    result: {
      readers: shown.map(readerFields),
      without_reader: without.map(({ serviceId, name }) => ({ client_id: serviceId, name })),
    },
    text: [
      ...(shown.length > 0 ? [HEADING, ...shown.map(line)] : ['no readers']),
      ...(isWhole
        ? without.map(({ name }) => `${name} may read the feed, and no reader of it is known`)
        : []),
    ].join('\n'),
  };
};

type ListedReader = ReaderPage['readers'][number];

const HEADING = ['service', 'instance', 'behind', 'seen', 'version', 'when stale', 'keys'].join('\t');

function line({ reader, behind }: ListedReader): string {
  const { name, software, version, maxStaleness, whenStale, keys } = reader;
  const policy = whenStale === null ? '' : `${whenStale} after ${maxStaleness ?? ''} s`;
  return [
    name,
    labelOf(reader),
    behind ?? 'unknown',
    isoOrNull(reader.seenAt),
    [software, version].filter(Boolean).join(' '),
    policy,
    keys.join(','),
  ].join('\t');
}

/** The fields of `GET /api/auth/revocations/readers`, except the position. */
function readerFields({ reader, behind }: ListedReader) {
  const { software, version, audience, maxStaleness, whenStale, keys, confirmedAt, seenAt } = reader;
  return {
    ...namesOf(reader),
    software,
    version,
    audience,
    max_staleness: maxStaleness,
    when_stale: whenStale,
    keys,
    behind,
    confirmed_at: isoOrNull(confirmedAt),
    seen_at: isoOrNull(seenAt),
  };
}

/** A reader that has not said its version counts as older, because that of 1.0.0 says none. @throws UsageError */
function olderThan(below: string): (version: string | null) => boolean {
  const limit = numbersIn(below);
  if (!limit) throw new UsageError('--below is a version, such as 1.1.0');
  return (version) => {
    const own = version === null ? null : numbersIn(version);
    if (!own) return true;
    const i = limit.findIndex((number, place) => number !== own[place]);
    return i !== -1 && (own[i] ?? 0) < (limit[i] ?? 0);
  };
}

function numbersIn(version: string): number[] | null {
  return /^(\d+)\.(\d+)\.(\d+)(?:[-+].*)?$/.exec(version)?.slice(1, 4).map(Number) ?? null;
}

/** `latchkey readers enforced`. */
const enforced: Command = async ({ env, values }) => {
  const target = targetOf(values);
  const wait = /^\d{1,2}$/.test(values.wait) ? Number(values.wait) : NaN;
  if (!(wait <= LONGEST_WAIT))
    throw new UsageError(`--wait is a number of seconds from 0 to ${LONGEST_WAIT}`);
  const answer = await withEnforcement(env, ({ ask }) => ask(target, wait));
  // Without a reader, nobody has said that it refuses anything.
  const isWell = answer.done && countAll(answer.counts) > 0;
  return { result: forMachines(answer), text: describeAnswer(answer).join('\n'), isWell };
};

/** @throws UsageError unless exactly one is named. */
function targetOf({ token, id, all }: Values): Target {
  const named = [token !== undefined, id !== undefined, all].filter(Boolean).length;
  const number = token ?? id ?? '1';
  if (named !== 1 || !/^[1-9]\d{0,14}$/.test(number))
    throw new UsageError('readers enforced needs --token ID, --id USER (both numbers) or --all');
  if (token !== undefined) return { token: Number(token) };
  return id === undefined ? { all: true } : { user: Number(id) };
}

/** `latchkey readers forget NAME [INSTANCE]`. */
const forget: Command = async ({ env, words: [given = '', instance] }) => {
  const name = parseServiceName(given);
  return withPostgres(env, async (postgres) => {
    const services = await makeServiceStore(postgres.prisma).list();
    const service = services.find((each) => each.name === name);
    if (!service) throw new CommandError('no client has this name');
    const forgotten = await makeFeedReaders(postgres).forget(service.serviceId, instance ?? null);
    if (forgotten === 0 && instance !== undefined)
      throw new CommandError('no reader of this client has this instance');
    return {
      result: { name: service.name, forgotten },
      text: `${forgotten} forgotten; one that is alive comes back with its next confirmation`,
      audited: { forgotten },
    };
  });
};
