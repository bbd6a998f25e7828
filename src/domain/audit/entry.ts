import Type, { type Static } from 'typebox';
import { EVENTS, type AuditEvent, type Definition } from './event.ts';
import type { Source, Sourced } from './source.ts';

/** Token ids in one entry: a line stays under 4096 bytes, which a pipe takes in one piece. */
export const MAX_TOKEN_IDS = 100;

const nullable = (description: string, maxLength = 512) =>
  Type.Union([Type.String({ maxLength }), Type.Null()], { description });

export const ActorSchema = Type.Union([
  Type.Object({ type: Type.Literal('user'), user_id: Type.Integer() }, { additionalProperties: false }),
  Type.Object({ type: Type.Literal('service'), client_id: Type.String() }, { additionalProperties: false }),
  Type.Object(
    { type: Type.Literal('operator'), name: Type.String(), host: Type.String() },
    { additionalProperties: false },
  ),
  Type.Object({ type: Type.Literal('system'), host: Type.String() }, { additionalProperties: false }),
  Type.Object({ type: Type.Literal('anonymous') }, { additionalProperties: false }),
]);

/** What every line of the audit trail holds. */
export const EntrySchema = Type.Object(
  {
    log: Type.Literal('audit', { description: 'Tells the line from the request log' }),
    time: Type.String({ format: 'date-time', description: 'UTC, RFC 3339' }),
    event: Type.String({ description: 'The event’s name' }),
    severity: Type.Enum(['info', 'warn', 'error'], {
      description: '`info`: routine. `warn`: look at it. `error`: act',
    }),
    outcome: Type.Enum(['success', 'refused', 'failed'], {
      description: '`refused`: the service said no. `failed`: an operator’s command ended with an error',
    }),
    actor: Type.Intersect([ActorSchema], {
      description:
        '`type` and who: `user_id`, `client_id` of a `service`, `name` and `host` of an `operator`',
    }),
    subject: Type.Object(
      {
        user_id: Type.Optional(Type.Integer()),
        name_hash: Type.Optional(Type.String()),
        client_id: Type.Optional(Type.String()),
        client_name: Type.Optional(Type.String()),
        kid: Type.Optional(Type.String()),
      },
      { additionalProperties: false, description: 'What it happened to; `{}` if only `details` say so' },
    ),
    token_id: Type.Union([Type.Integer(), Type.Null()], {
      description: 'The session or long-lived token; null if there is none, or several',
    }),
    address: nullable('The caller’s address; null for commands and background work', 64),
    user_agent: nullable('The caller’s User-Agent, at most 256 characters', 256),
    request_id: nullable('`X-Request-Id` of the answer, `reqId` in the request log', 64),
    details: Type.Record(Type.String(), Type.Unknown(), { description: 'The event’s own fields' }),
  },
  { additionalProperties: false },
);

export type Entry = Omit<Static<typeof EntrySchema>, 'actor'> & { actor: Static<typeof ActorSchema> };

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
 * @param self the operating system's user and host of the process.
 */
export function toEntry(event: AuditEvent, from: Sourced, time: number, self: Self): Entry {
  const { event: name, ...fields } = event;
  const definition: Definition = EVENTS[name];
  const { source } = from;
  const values: Readonly<Record<string, unknown>> = fields;
  const isActor = (field: string) => field === 'clientId' && definition.actor === 'service';
  return {
    log: 'audit',
    time: new Date(time).toISOString(),
    event: name,
    severity: definition.severity,
    outcome: definition.outcome ?? (values.outcome as Entry['outcome']),
    actor: actorOf(definition, values, source, self),
    subject: inSnakeCase(values, (field) => SUBJECTS.includes(field) && !isActor(field)),
    token_id: typeof values.tokenId === 'number' ? values.tokenId : null,
    address: source.address,
    user_agent: source.userAgent,
    request_id: source.requestId,
    details: inSnakeCase(values, (field) => !ENVELOPE_FIELDS.includes(field)),
  };
}

function actorOf(
  { actor }: Definition,
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
