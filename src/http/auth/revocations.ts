import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type, { type TSchema } from 'typebox';
import type { FanOut } from '../../domain/feed/fan-out.ts';
import type { FeedEvent, UserEventType, FeedPosition } from '../../domain/feed/ports.ts';
import type { FeedMessage, FeedReader } from '../../domain/feed/reader.ts';
import { openEventStream } from '../event-stream.ts';
import type { JsonObject } from '../openapi/json.ts';
import { operation } from '../openapi/operation.ts';
import { BY_SERVICE } from '../openapi/description.ts';
import { serviceOf } from '../plugins/authenticate-service.ts';
import { Id } from '../schemas.ts';

/** The id of a process that reads the feed. */
export const READER_ID = /^[A-Za-z0-9_-]{16,64}$/;

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

const version = Type.Integer({
  description: 'Grows with each change of the user; of several events, the greatest counts',
  minimum: 0,
  examples: [3],
});

function aboutUser(description: string) {
  return eventData(description, { user: id('The user’s id'), version });
}

const USER_EVENTS: Record<UserEventType, TSchema> = {
  user_created: aboutUser('An account was created'),
  user_changed: aboutUser(
    'What services see of a user has changed, so what you cached about this user may be outdated',
  ),
  user_disabled: aboutUser('An account was disabled'),
  user_enabled: aboutUser('A disabled account was enabled'),
  user_deleted: aboutUser('An account was deleted'),
};

const EVENTS = {
  snapshot: eventData(
    'Everything revoked that an unexpired access token could still name, in one or more parts',
    {
      tokens: Type.Array(id('A token that is revoked'), { description: 'Ids of tokens, as in `sid`' }),
      users: Type.Array(
        eventData('A user with most or all tokens revoked', { user: id('The user’s id'), before }),
      ),
      statuses: Type.Array(
        eventData('A user', {
          user: id('The user’s id'),
          status: Type.Union([Type.Literal('disabled'), Type.Literal('enabled'), Type.Literal('deleted')]),
          version,
        }),
        { description: 'The users who were disabled, enabled or deleted in the last `remember` seconds' },
      ),
      last: Type.Boolean({ description: 'Whether this is the last part', examples: [true] }),
      remember: Type.Integer({
        description: 'How many seconds to remember a revocation',
        minimum: 1,
        examples: [905],
      }),
    },
  ),
  revoked: eventData('A token is revoked', { token: id('Its id, as in `sid`'), user: id('Its owner’s id') }),
  user_revoked: eventData('Tokens of a user are revoked', { user: id('The user’s id'), before }),
  ...USER_EVENTS,
  clients: eventData(
    'The registered services that are not disabled, sent when a reader connects and after each change; it has no `id`',
    {
      versions: Type.Record(Type.String(), Type.Integer({ minimum: 1 }), {
        description: 'The version of each service by its id; its tokens of an earlier version have ended',
        examples: [{ lkc_n2Kx0pQ: 1 }],
      }),
    },
  ),
  heartbeat: eventData('Sent each second: you have everything that was published before', {}),
};

const EXAMPLE = `retry: 1000

event: snapshot
id: Zm9vYmFy.41
data: {"tokens":[11,12],"users":[],"statuses":[],"last":true,"remember":905}

event: revoked
id: Zm9vYmFy.42
data: {"token":7,"user":7}

event: heartbeat
id: Zm9vYmFy.42
data: {}

`;

const EVENT_STREAM: JsonObject = {
  description: 'Events for as long as the connection lasts. `x-events` has the schemas of their data.',
  headers: {
    'Cache-Control': {
      description: 'No cache may store the stream, and no proxy may compress it.',
      required: true,
      schema: { type: 'string', const: 'no-store, no-transform' },
    },
    'X-Accel-Buffering': {
      description: 'Tells nginx not to buffer the stream.',
      required: true,
      schema: { type: 'string', const: 'no' },
    },
  },
  content: { 'text/event-stream': { schema: { type: 'string' }, example: EXAMPLE, 'x-events': EVENTS } },
};

const schema = operation({
  operationId: 'revocations',
  summary: 'Follow revoked tokens and changed users as it happens.',
  description:
    'A stream of Server-Sent Events without an end, for services that check tokens themselves and want to hear of revocations within a second. It begins with a snapshot of all revocations that still matter. A heartbeat each second says that nothing is missing; if heartbeats stop, reconnect with `Last-Event-ID`, and decide for how long to trust what you know. `@latchkey/verifier` and `@latchkey/agent` read the feed for you. The operation needs the right `revocations`.',
  tags: ['Registered services'],
  security: BY_SERVICE,
  refuses: [],
  headers: Type.Object({
    'last-event-id': Type.Optional(
      Type.String({
        description: 'The last `id` that you have read; the stream goes on after it, without a snapshot',
      }),
    ),
    'x-latchkey-reader': Type.Optional(
      Type.String({
        description:
          'The id of your process: 16 to 64 of `A-Z`, `a-z`, `0-9`, `_` and `-`, random and new at each start. With it, others see how far this process has got. A malformed one counts as none',
      }),
    ),
  }),
  answers: { 200: EVENT_STREAM },
});

/** Milliseconds after which a disconnected reader reconnects. */
const RETRY = 1000;

export const revocationsRoute: FastifyPluginCallbackTypebox<RevocationsRoute> = (app, { fanOut }, done) => {
  app.get('/api/auth/revocations', { schema, ...app.auth.service('revocations') }, async (request, reply) => {
    const service = serviceOf(request);
    const lastId = request.headers['last-event-id'];
    const start = await fanOut.open(lastId === undefined ? null : parsePosition(lastId), service.serviceId);

    reply.hijack();
    const stream = openEventStream(reply.raw, { 'x-request-id': request.id }, () => {
      fanOut.leave(reader);
    });
    app.streamBegins(request);
    const reader: FeedReader = {
      service,
      id: readerIdOf(request.headers['x-latchkey-reader']),
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

function readerIdOf(text: string | undefined): string | null {
  return text !== undefined && READER_ID.test(text) ? text : null;
}

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
  if (message.type === 'clients') return ['clients', { versions: message.versions }];
  if (message.type === 'event') return [message.event.type, dataOf(message.event)];
  const { tokens, users, statuses, remember, position } = message;
  const marks = users.map(({ userId, before }) => ({ user: userId, before }));
  const accounts = statuses.map(({ userId, status, version }) => ({ user: userId, status, version }));
  return ['snapshot', { tokens, users: marks, statuses: accounts, last: position !== null, remember }];
}

function dataOf(event: FeedEvent): object {
  if (event.type === 'revoked') return { token: event.tokenId, user: event.userId };
  if (event.type === 'user_revoked') return { user: event.userId, before: event.before };
  return { user: event.userId, version: event.version };
}

function eventData<Properties extends Record<string, TSchema>>(description: string, properties: Properties) {
  return Type.Object(properties, { description, additionalProperties: false });
}

/** An event id. */
export const POSITION = /^([\w-]{1,64})\.(0|[1-9]\d{0,15})$/;

/** Parses an event id that a reader sends back. @returns null if the text is not one of our ids. */
export function parsePosition(text: string): FeedPosition | null {
  const [, epoch, digits] = POSITION.exec(text) ?? [];
  const seq = Number(digits);
  return epoch !== undefined && Number.isSafeInteger(seq) ? { epoch, seq } : null;
}

export function positionText({ epoch, seq }: FeedPosition): string {
  return `${epoch}.${seq}`;
}
