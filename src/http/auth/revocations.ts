import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type, { type TSchema } from 'typebox';
import type { FanOut } from '../../domain/feed/fan-out.ts';
import { parsePosition, positionText } from '../../domain/feed/position.ts';
import type { FeedEvent } from '../../domain/feed/ports.ts';
import type { FeedMessage, FeedReader } from '../../domain/feed/reader.ts';
import { openEventStream } from '../event-stream.ts';
import type { JsonObject } from '../openapi/json.ts';
import { operation } from '../openapi/operation.ts';
import { serviceClientOf } from '../plugins/authenticate-client.ts';
import { Id } from '../schemas.ts';

export interface RevocationsRoute {
  fanOut: Pick<FanOut, 'open' | 'leave' | 'close'>;
}

// The feed's answer in the reference. OpenAPI 3.1 cannot describe a stream, so `x-events` holds each event's data.
const id = (description: string) => ({ ...Id, description });
const before = Type.Integer({
  description: 'Every token of the user whose id is at most this is revoked',
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  examples: [12],
});

const EVENTS = {
  snapshot: eventData(
    'All revoked tokens and users that an unexpired access token may still name, in parts',
    {
      tokens: Type.Array(id('A token that is revoked'), { description: 'Ids of tokens, as in `sid`' }),
      users: Type.Array(
        eventData('A user with most or all tokens revoked', { user: id('The user’s id'), before }),
      ),
      last: Type.Boolean({ description: 'Whether this is the last part', examples: [true] }),
      remember: Type.Integer({
        description: 'Seconds for which to remember a revocation',
        minimum: 1,
        examples: [905],
      }),
    },
  ),
  revoked: eventData('A token is revoked', { token: id('Its id, as in `sid`'), user: id('Its owner’s id') }),
  user_revoked: eventData('Tokens of a user are revoked', { user: id('The user’s id'), before }),
  user_changed: eventData(
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
  heartbeat: eventData('Sent each second: everything published before has been sent', {}),
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

const EVENT_STREAM: JsonObject = {
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

const schema = operation({
  operationId: 'revocations',
  summary: 'Which tokens are revoked and which users have changed, as it happens (Server-Sent Events)',
  description:
    'For services that verify tokens themselves and need revocations within a second. The stream does not end. docs/integrating.md explains what to keep of it, and what to do if heartbeats stop.',
  tags: ['Registered services'],
  security: [{ serviceClient: [] }],
  refuses: [],
  headers: Type.Object({
    'last-event-id': Type.Optional(
      Type.String({
        description: 'The last `id` that was read: the stream resumes after it, without a snapshot',
      }),
    ),
  }),
  answers: { 200: EVENT_STREAM },
});

/** Milliseconds after which a disconnected reader reconnects. */
const RETRY = 1000;

export const revocationsRoute: FastifyPluginCallbackTypebox<RevocationsRoute> = (app, { fanOut }, done) => {
  app.get('/api/auth/revocations', { schema, ...app.auth.client('revocations') }, async (request, reply) => {
    const client = serviceClientOf(request);
    const lastId = request.headers['last-event-id'];
    const start = await fanOut.open(lastId === undefined ? null : parsePosition(lastId), client.clientId);

    reply.hijack();
    const stream = openEventStream(reply.raw, { 'x-request-id': request.id }, () => {
      fanOut.leave(reader);
    });
    app.streamBegins(request);
    const reader: FeedReader = {
      client,
      send: (messages) => {
        stream.write(textOf(messages));
      },
      backlog: stream.backlog,
      flushed: stream.flushed,
      end: stream.end,
    };
    stream.write(`retry: ${RETRY}\n\n`);
    start(reader);
    // The reader may have left during `open`; then no close event follows.
    if (reply.raw.destroyed) fanOut.leave(reader);
  });
  // Readers must not block a close without a drain either.
  app.addHook('preClose', (closed) => {
    fanOut.close();
    closed();
  });
  done();
};

/** Serialised messages: all readers get the same arrays. */
const serialised = new WeakMap<readonly FeedMessage[], string>();

function textOf(messages: readonly FeedMessage[]): string {
  const known = serialised.get(messages);
  if (known !== undefined) return known;
  const text = messages.map(eventText).join('');
  serialised.set(messages, text);
  return text;
}

function eventText(message: FeedMessage): string {
  const [name, data] = contentOf(message);
  const id = message.position ? `id: ${positionText(message.position)}\n` : '';
  return `event: ${name}\n${id}data: ${JSON.stringify(data)}\n\n`;
}

function contentOf(message: FeedMessage): [name: string, data: object] {
  if (message.type === 'heartbeat') return ['heartbeat', {}];
  if (message.type === 'event') return [message.event.type, dataOf(message.event)];
  const { tokens, users, remember, position } = message;
  const marks = users.map(({ userId, before }) => ({ user: userId, before }));
  return ['snapshot', { tokens, users: marks, last: position !== null, remember }];
}

function dataOf(event: FeedEvent): object {
  if (event.type === 'revoked') return { token: event.tokenId, user: event.userId };
  if (event.type === 'user_changed') return { user: event.userId, version: event.version };
  return { user: event.userId, before: event.before };
}

function eventData<Properties extends Record<string, TSchema>>(description: string, properties: Properties) {
  return Type.Object(properties, { description, additionalProperties: false });
}
