import type { FastifyBaseLogger } from 'fastify';
import type { KeyRing, KeySet } from '../domain/access-tokens/ports.ts';
import {
  EVENTS,
  type Audit,
  type AuditEvent,
  type AuditFailure,
  type AuditLimit,
} from '../domain/audit/event.ts';
import { NO_REQUEST, type Sourced } from '../domain/audit/source.ts';
import { toEntry } from '../domain/audit/to-entry.ts';
import type { Clock } from '../domain/clock.ts';
import { openAuditLog, type AuditLog } from '../infra/audit/audit-log.ts';
import { operator } from '../infra/audit/command-trail.ts';
import type { LogOutput } from '../runtime/logger.ts';
import { StartError } from '../runtime/start-error.ts';
import type { Observe } from '../telemetry/observe.ts';

interface AuditLogParts {
  /** AUDIT_LOG. */
  target: string;
  /** Of the log, for `stdout`: two writers would mix their lines in a full pipe. */
  output: Pick<LogOutput, 'openAudit'>;
  observe: Pick<Observe, 'auditLost'>;
  logger: FastifyBaseLogger;
}

/**
 * Opens the audit trail. Lost events are counted, and logged once for each cause: no request fails because of them.
 * @throws StartError if the file cannot be written: a service that should keep a trail must not start without one.
 */
export function openTrail({ target, output, observe, logger }: AuditLogParts): AuditLog {
  let failing: string | null = null;
  const onLost = (lines: number, reason: string) => {
    observe.auditLost(lines);
    if (reason !== failing)
      logger.error(
        { reason, target },
        'audit events are lost: make space, or restart the reader of AUDIT_LOG; requests are served meanwhile',
      );
    failing = reason;
  };
  const onWritten = () => {
    if (failing !== null) logger.info({ target }, 'audit events are written again');
    failing = null;
  };
  try {
    return openAuditLog(target, { openAudit: output.openAudit, onLost, onWritten });
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw new StartError(
      `AUDIT_LOG: cannot write ${target} (${code}): create its folder, and let the service write there`,
    );
  }
}

interface AuditParts {
  trail: Pick<AuditLog, 'write'>;
  observe: Pick<Observe, 'audited'>;
  clock: Pick<Clock, 'now' | 'monotonic'>;
}

/** Keys whose window is known to have begun; an attacker with many addresses must not fill the memory. */
const MAX_KEYS = 10_000;
/** Of failed guesses that no limit bounds, in milliseconds. */
const FAILURE_WINDOW = 60_000;

/** Writes audit events to the audit trail, and counts them. A flood must not fill the trail. */
export function makeAudit({ trail, observe, clock }: AuditParts) {
  // The actor of what the service does unasked.
  const self = operator();
  const write = (event: AuditEvent, from: Sourced) => {
    trail.write(`${JSON.stringify(toEntry(EVENTS[event.event], event, from, clock.now(), self))}\n`);
  };
  const audit: Audit = (event, from) => {
    observe.audited(event);
    write(event, from);
  };
  const [limits, failures] = [makeWindows(clock), makeWindows(clock)];
  /** Writes the first refusal of each key and window. */
  const auditLimit: AuditLimit = (key, event, from) => {
    if (limits(key, event.windowSeconds * 1000) !== null) audit(event, from);
  };
  const auditFailure: AuditFailure = (event, { heldSlot, network }, from) => {
    // The metrics count each.
    observe.audited(event);
    if (heldSlot) {
      write(event, from);
      return;
    }
    const account = 'userId' in event ? event.userId : undefined;
    const count = failures(`${event.event} ${account} ${network}`, FAILURE_WINDOW);
    if (count !== null) write(count > 0 ? { ...event, count } : event, from);
  };
  return { audit, auditLimit, auditFailure };
}

/** @returns whether something is the first of its key in a window: how many others the last window had; null if it is not */
function makeWindows({ monotonic }: Pick<Clock, 'monotonic'>) {
  /** The oldest entry first. */
  const windows = new Map<string, { end: number; others: number }>();
  return (key: string, length: number): number | null => {
    const now = monotonic();
    const last = windows.get(key);
    if (last && last.end > now) {
      last.others++;
      return null;
    }
    windows.delete(key);
    windows.set(key, { end: now + length, others: 0 });
    const [oldest] = windows.keys();
    if (windows.size > MAX_KEYS && oldest !== undefined) windows.delete(oldest);
    return last?.others ?? 0;
  };
}

/** Writes which keys a replica gained, lost, and began to sign with. */
export function auditKeys(keyRing: Pick<KeyRing, 'current' | 'onChange'>, audit: Audit): void {
  let before = keyRing.current();
  keyRing.onChange((next) => {
    auditKeyUse('signing', before, next, audit);
    auditKeyUse('refresh', before, next, audit);
    before = next;
    return Promise.resolve();
  });
}

function auditKeyUse(use: 'signing' | 'refresh', before: KeySet, next: KeySet, audit: Audit): void {
  const [old, now] = [before, next].map((keys) => keys[use].map(({ kid }) => kid)) as [string[], string[]];
  for (const kid of now.filter((each) => !old.includes(each)))
    audit({ event: 'key.loaded', kid, use }, NO_REQUEST);
  const [[previous], [kid]] = [old, now];
  if (kid !== undefined && previous !== undefined && kid !== previous)
    audit({ event: 'key.switched', kid, use, previous }, NO_REQUEST);
  for (const kid of old.filter((each) => !now.includes(each)))
    audit({ event: 'key.removed', kid, use }, NO_REQUEST);
}
