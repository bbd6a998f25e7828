import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { lifetimesOf } from '../domain/tokens/claims.ts';
import { loadConfig, NO_HASHES, type Config, type Environment } from '../config/config.ts';
import type { KeyRing } from '../domain/access-tokens/ports.ts';
import type { Entry } from '../domain/audit/entry.ts';
import type { EnforcementAnswer } from '../domain/enforcement/enforcement.ts';
import { ignoreOutage } from '../domain/errors.ts';
import type { ServiceBearer, TokenKey } from '../domain/principal.ts';
import type { TokenRecord } from '../domain/tokens/token-record.ts';
import { makeTokenCodec } from '../http/token-codec.ts';
import { fileOf } from '../infra/audit/audit-log.ts';
import { existingRefreshSecret } from '../infra/crypto/generated-keys.ts';
import { readSigningKeys } from '../infra/crypto/key-files.ts';
import { parseRefreshSecrets } from '../infra/crypto/keys.ts';
import { makeServiceStore } from '../infra/postgres/service-store.ts';
import { inspectToken, type RecordedToken } from '../infra/postgres/inspect-token.ts';
import { orUnavailable } from '../infra/redis/connection/errors.ts';
import { openRedis } from '../infra/redis/connection/open-redis.ts';
import { readState, type StoredToken } from '../infra/redis/inspect-token.ts';
import { systemClock } from '../runtime/system-clock.ts';
import { withTimeout } from '../runtime/with-timeout.ts';
import { NEEDS_SECRET } from './account-settings.ts';
import { UsageError } from './arguments.ts';
import { CommandError, type Command } from './command.ts';
import { withPostgres } from './database.ts';
import { isAway, type Away } from './away.ts';
import { describeAnswer, forMachines, withEnforcement } from './enforcement.ts';
import { judgeServiceToken, type ServiceTokenFacts } from './explain-service-token.ts';
import {
  explain,
  explainService,
  forPeople,
  type Explanation,
  type Facts,
  type Presented,
} from './explanation.ts';

/** Milliseconds to wait for Redis. */
const REDIS_TIMEOUT = 5000;

/** Seconds to wait until all readers refuse an ended token. */
const READERS_TIMEOUT = 5;

/** The service takes no longer header. */
const LONGEST = 16 * 1024;

/** `latchkey explain`: why the token on standard input is good or refused. Changes nothing. */
export const run: Command = async ({ env }) => {
  const explanation = await explainToken(await readToken(process.stdin), env);
  const answer = await readersOf(explanation, env);
  return {
    result: { ...explanation, readers: answer && forMachines(answer) },
    text: [
      forPeople(explanation),
      ...(answer ? ['Its end, at services:', ...describeAnswer(answer)] : []),
    ].join('\n'),
    audited:
      explanation.user && explanation.record
        ? { userId: explanation.user.id, tokenId: explanation.record.id }
        : {},
    isWell: explanation.reason === null,
  };
};

/** @returns which readers of the feed refuse a token that has ended; null if it has not, or that cannot be told here. */
async function readersOf(
  { reason, record }: Explanation,
  env: Environment,
): Promise<EnforcementAnswer | null> {
  if (record === null || (reason !== 'revoked' && reason !== 'reused')) return null;
  try {
    return await withEnforcement(env, ({ ask }) => ask({ token: record.id }, READERS_TIMEOUT));
  } catch (error) {
    // Without the service's Redis.
    if (!(error instanceof CommandError)) ignoreOutage(error);
    return null;
  }
}

/** @throws ConfigError, KeyError */
export async function explainToken(token: string, env: Environment): Promise<Explanation> {
  const config = loadConfig(env, NO_HASHES);
  const { presented, service } = await checkToken(token, config);
  if (service) {
    const services = await readServices(env);
    const given = { bearer: service, now: systemClock.now(), issuer: config.ISSUER, services };
    return explainService(presented, judgeServiceToken(given));
  }
  const key = presented.identity;
  const record = key && (await readRecord(env, key));
  return explain({
    presented,
    now: systemClock.now(),
    issuer: config.ISSUER,
    audience: config.AUDIENCE,
    window: config.REFRESH_RETRY_WINDOW,
    lifetimes: lifetimesOf(config),
    stored: key && (await readRedis(config, key)),
    record,
    trail: record && !isAway(record) ? await endingEvent(config.AUDIT_LOG, record) : null,
  });
}

/** @throws UsageError */
async function readToken(input: Readable & { isTTY?: boolean }): Promise<string> {
  if (input.isTTY) process.stderr.write('Paste the token, then press Enter and Ctrl+D:\n');
  let text = '';
  for await (const chunk of input.setEncoding('utf8')) {
    text += String(chunk);
    if (text.length > LONGEST) throw new UsageError('standard input is too long for a token');
  }
  const token = text.trim().replace(/^(?:Authorization: *)?Bearer +/i, '');
  if (token === '') throw new UsageError('give the token on standard input: latchkey explain < FILE');
  return token;
}

async function checkToken(
  token: string,
  config: Config,
): Promise<{ presented: Presented; service: ServiceBearer | null }> {
  const directory = config.SIGNING_KEYS_DIR ?? `${config.DATA_DIR}/keys`;
  const secrets = config.readRefreshSecrets?.() ?? existingRefreshSecret(config.DATA_DIR);
  if (secrets === null) throw new CommandError(NEEDS_SECRET);
  const keys = {
    signing: readSigningKeys(directory),
    refresh: parseRefreshSecrets(secrets),
  };
  const keyRing: KeyRing = {
    current: () => keys,
    onChange: () => undefined,
    reload: () => Promise.resolve(keys),
    isIncomplete: () => false,
    isInUse: () => Promise.resolve(false),
  };
  const codec = await makeTokenCodec(keyRing, {
    config,
    observe: { tokenRefused: () => undefined, signatureChecked: () => undefined },
    clock: { now: () => systemClock.now(), isTrusted: () => true },
  });
  const found = await codec.verifySigned(token, 'access', 'refresh', 'llt', 'limited', 'exchanged');
  const service = found === 'type' ? await codec.verifySignedService(token) : found;
  const [header = {}, claims = {}] = token.split('.', 2).map(readPart);
  const presented = {
    header,
    claims,
    keyIds: [...keys.signing, ...keys.refresh].map(({ kid }) => kid),
    ...(typeof found === 'string' ? { refusal: found, identity: null } : { refusal: null, identity: found }),
  };
  return { presented, service: typeof service !== 'string' && service.type === 'service' ? service : null };
}

/** A part of a token, unproven; empty if it is no JSON object. */
function readPart(part: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString());
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** @returns null if this process cannot see the states: without Redis, they are in the service's memory. */
async function readRedis(config: Config, key: TokenKey): Promise<StoredToken | Away | null> {
  const { REDIS_URL, REDIS_PREFIX } = config;
  if (REDIS_URL === undefined) return null;
  const redis = openRedis({ ...config, REDIS_URL });
  redis.on('error', () => undefined);
  try {
    await orUnavailable(withTimeout(redis.connect(), REDIS_TIMEOUT));
    return await orUnavailable(withTimeout(readState(redis, REDIS_PREFIX, key), REDIS_TIMEOUT));
  } catch (error) {
    return awayOf(error);
  } finally {
    redis.disconnect();
  }
}

async function readServices(env: Environment): Promise<ServiceTokenFacts['services']> {
  try {
    return await withPostgres(env, ({ prisma }) => makeServiceStore(prisma).list());
  } catch (error) {
    return awayOf(error);
  }
}

async function readRecord(env: Environment, key: TokenKey): Promise<Facts['record']> {
  try {
    return await withPostgres(env, ({ prisma }) => inspectToken(prisma, key.tokenId));
  } catch (error) {
    return awayOf(error);
  }
}

/** @throws any error that is no outage */
function awayOf(error: unknown): Away {
  ignoreOutage(error);
  return { isAway: true };
}

/**
 * The event of the audit trail that ended this token.
 * @param target AUDIT_LOG.
 * @returns null if there is none, or the trail is no file that can be read.
 */
async function endingEvent(
  target: string,
  { record, endReason }: Pick<RecordedToken, 'record' | 'endReason'>,
): Promise<Entry | null> {
  const file = fileOf(target);
  if (file === null || endReason === null) return null;
  // A service that ends tokens names them, and a command does not.
  const isEnding = (entry: Entry) =>
    endsToken(entry, record) || (endReason === 'admin' && endsAccount(entry, record));
  try {
    const lines = createInterface({
      input: createReadStream(file),
      crlfDelay: Infinity,
    });
    for await (const line of lines) {
      if (!line.includes(`"user_id":${record.userId}`)) continue;
      const entry = parseEntry(line);
      if (entry?.subject.user_id === record.userId && isEnding(entry)) return entry;
    }
  } catch {
    // Rotated away, or of another user of the system: the record says enough.
  }
  return null;
}

function parseEntry(line: string): Entry | null {
  try {
    const entry = JSON.parse(line) as Entry | null;
    return entry?.log === 'audit' ? entry : null;
  } catch {
    return null;
  }
}

/** Of one token, of several, or the theft that ended it. */
function endsToken({ event, token_id, details }: Entry, { id }: TokenRecord): boolean {
  const { token_ids: ended } = details;
  if (Array.isArray(ended)) return ended.includes(id);
  return (
    token_id === id &&
    ['token.revoked', 'token.revoked_by_client', 'session.replaced', 'session.reuse_detected'].includes(event)
  );
}

/** How far the clock of an operator's machine may be behind; milliseconds. */
const CLOCK_SKEW = 60_000;

/** The command that ended all tokens of the account. It leaves its event when it has ended them. */
function endsAccount({ event, time }: Entry, { revokedAt }: TokenRecord): boolean {
  return ['user.disable', 'user.delete'].includes(event) && Date.parse(time) >= (revokedAt ?? 0) - CLOCK_SKEW;
}
