import type { Entry } from './entry.ts';
import type { AuditEvent } from './event.ts';
import type { Kind } from './kind.ts';
import type { Source, Sourced } from './source.ts';

// Apart from the schemas: they take longer to load than a command runs.

/** Token ids in one entry: a line stays under 4096 bytes, which a pipe takes in one piece. */
export const MAX_TOKEN_IDS = 100;

/** Who writes an event that no caller caused. */
export interface Self {
  name: string;
  host: string;
}

/** Where the fields of events go that are not details. */
const SUBJECTS = ['userId', 'nameHash', 'clientId', 'clientName', 'kid'];
export const ENVELOPE_FIELDS = [...SUBJECTS, 'tokenId', 'outcome'];

/**
 * The line of an event, as an object.
 * @param kind the event's, of EVENTS.
 * @param self the operating system's user and host of the process.
 */
export function toEntry(kind: Kind, event: AuditEvent, from: Sourced, time: number, self: Self): Entry {
  const { event: name, ...fields } = event;
  const { source } = from;
  const values: Readonly<Record<string, unknown>> = fields;
  const isActor = (field: string) => field === 'clientId' && kind.actor === 'service';
  return {
    log: 'audit',
    time: new Date(time).toISOString(),
    event: name,
    severity: kind.severity,
    outcome: kind.outcome ?? (values.outcome as Entry['outcome']),
    actor: actorOf(kind, values, source, self),
    subject: inSnakeCase(values, (field) => SUBJECTS.includes(field) && !isActor(field)),
    token_id: typeof values.tokenId === 'number' ? values.tokenId : null,
    address: source.address,
    user_agent: source.userAgent,
    request_id: source.requestId,
    details: inSnakeCase(values, (field) => !ENVELOPE_FIELDS.includes(field)),
  };
}

function actorOf(
  { actor }: Kind,
  { userId, clientId }: Readonly<Record<string, unknown>>,
  source: Source,
  { name, host }: Self,
): Entry['actor'] {
  switch (actor) {
    case 'user':
      return { type: 'user', user_id: Number(userId) };
    case 'service':
      return { type: 'service', client_id: String(clientId) };
    case 'presenter':
      return source.clientId === null
        ? { type: 'anonymous' }
        : { type: 'service', client_id: source.clientId };
    case 'operator':
      return { type: actor, name, host };
    case 'system':
      return { type: actor, host };
  }
}

function inSnakeCase(
  values: Readonly<Record<string, unknown>>,
  isWanted: (field: string) => boolean,
): Record<string, unknown> {
  const wanted = Object.entries(values).filter(([field, value]) => isWanted(field) && value !== undefined);
  return Object.fromEntries(
    wanted.flatMap(([field, value]) =>
      Array.isArray(value)
        ? [
            [snakeCase(field), value.slice(0, MAX_TOKEN_IDS)],
            ['count', value.length],
          ]
        : [[snakeCase(field), value]],
    ),
  );
}

export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
