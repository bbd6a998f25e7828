import Type, { type Static } from 'typebox';

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
