import Type, { type TSchema } from 'typebox';
import type { JsonObject } from '../openapi/json.ts';
import { Id } from '../schemas.ts';

/** The feed's answer in the reference. OpenAPI 3.1 cannot describe a stream, so `x-events` holds each event's data. */

const id = (description: string) => ({ ...Id, description });
const before = Type.Integer({
  description: 'Every token of the user whose id is at most this is revoked',
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  examples: [12],
});

const EVENTS = {
  snapshot: data('All revoked tokens and users that an unexpired access token may still name, in parts', {
    tokens: Type.Array(id('A token that is revoked'), { description: 'Ids of tokens, as in `sid`' }),
    users: Type.Array(data('A user with most or all tokens revoked', { user: id('The user’s id'), before })),
    last: Type.Boolean({ description: 'Whether this is the last part', examples: [true] }),
    remember: Type.Integer({
      description: 'Seconds for which to remember a revocation',
      minimum: 1,
      examples: [905],
    }),
  }),
  revoked: data('A token is revoked', { token: id('Its id, as in `sid`'), user: id('Its owner’s id') }),
  user_revoked: data('Tokens of a user are revoked', { user: id('The user’s id'), before }),
  user_changed: data(
    'A user’s names, roles or status have changed: answers about it that were kept may be outdated',
    {
      user: id('The user’s id'),
      version: Type.Integer({
        description: 'How often they have changed so far, or more often by now',
        minimum: 0,
        examples: [3],
      }),
    },
  ),
  heartbeat: data('Sent each second: everything published before has been sent', {}),
};

const EXAMPLE = `retry: 1000

event: snapshot
id: Zm9vYmFy.41
data: {"tokens":[11,12],"users":[],"last":true,"remember":905}

event: revoked
id: Zm9vYmFy.42
data: {"token":7,"user":7}

event: heartbeat
id: Zm9vYmFy.42
data: {}

`;

export const EVENT_STREAM: JsonObject = {
  description: 'Events, for as long as the connection lasts. `x-events` holds the schemas of their data.',
  headers: {
    'X-Accel-Buffering': {
      description: 'Tells nginx not to buffer.',
      required: true,
      schema: { type: 'string', const: 'no' },
    },
  },
  content: { 'text/event-stream': { schema: { type: 'string' }, example: EXAMPLE, 'x-events': EVENTS } },
};

function data<Properties extends Record<string, TSchema>>(description: string, properties: Properties) {
  return Type.Object(properties, { description, additionalProperties: false });
}
