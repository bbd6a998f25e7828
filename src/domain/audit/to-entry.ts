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

/** The members of `subject`, by the fields of events. */
const SUBJECTS: Readonly<Record<string, string>> = {
  userId: 'user_id',
  nameHash: 'name_hash',
  serviceId: 'client_id',
  serviceName: 'client_name',
  kid: 'kid',
};
/** The fields of events that are not details. */
export const ENVELOPE_FIELDS = [...Object.keys(SUBJECTS), 'tokenId', 'outcome'];

/**
 * The line of an event, as an object.
 * @param kind the event's, of EVENTS.
 * @param self the operating system's user and host of the process.
 */
export function toEntry(kind: Kind, event: AuditEvent, from: Sourced, time: number, self: Self): Entry {
  const { event: name, ...fields } = event;
  const { source } = from;
  const values: Readonly<Record<string, unknown>> = fields;
  const isActor = (field: string) => field === 'serviceId' && kind.actor === 'service';
  return {
    log: 'audit',
    time: new Date(time).toISOString(),
    event: name,
    severity: kind.severity,
    outcome: kind.outcome ?? (values.outcome as Entry['outcome']),
    actor: actorOf(kind, values, source, self),
    subject: inSnakeCase(values, (field) => field in SUBJECTS && !isActor(field)),
    token_id: typeof values.tokenId === 'number' ? values.tokenId : null,
    address: source.address,
    user_agent: source.userAgent,
    request_id: source.requestId,
    details: inSnakeCase(values, (field) => !ENVELOPE_FIELDS.includes(field)),
  };
}

function actorOf(
  { actor }: Kind,
  { userId, serviceId }: Readonly<Record<string, unknown>>,
  source: Source,
  { name, host }: Self,
): Entry['actor'] {
  switch (actor) {
    case 'user':
      return { type: 'user', user_id: Number(userId) };
    case 'service':
      return { type: 'service', client_id: String(serviceId) };
    case 'presenter':
      return source.serviceId === null
        ? { type: 'anonymous' }
        : { type: 'service', client_id: source.serviceId };
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
            [memberOf(field), value.slice(0, MAX_TOKEN_IDS)],
            ['count', value.length],
          ]
        : [[memberOf(field), value]],
    ),
  );
}

function memberOf(field: string): string {
  return SUBJECTS[field] ?? snakeCase(field);
}

export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
