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
  const { subject, details } = sortedFields(kind, values);
  return {
    log: 'audit',
    time: new Date(time).toISOString(),
    event: name,
    severity: kind.severity,
    outcome: kind.outcome ?? (values.outcome as Entry['outcome']),
    actor: actorOf(kind, values, source, self),
    subject,
    token_id: typeof values.tokenId === 'number' ? values.tokenId : null,
    address: source.address,
    user_agent: source.userAgent,
    request_id: source.requestId,
    details,
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

/** The members of `subject` and `details`. */
function sortedFields(kind: Kind, values: Readonly<Record<string, unknown>>) {
  const subject: Record<string, unknown> = {};
  const details: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(values)) {
    if (value === undefined) continue;
    const member = SUBJECTS[field];
    if (member !== undefined) {
      const isActor = field === 'serviceId' && kind.actor === 'service';
      if (!isActor) subject[member] = value;
    } else if (Array.isArray(value)) {
      details[snakeCase(field)] = value.slice(0, MAX_TOKEN_IDS);
      details.count = value.length;
    } else if (!ENVELOPE_FIELDS.includes(field)) {
      details[snakeCase(field)] = value;
    }
  }
  return { subject, details };
}

export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
