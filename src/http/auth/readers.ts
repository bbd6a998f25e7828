import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type, { type Static } from 'typebox';
import { AuthError } from '../../domain/errors.ts';
import type { ConfirmReaders } from '../../domain/enforcement/confirm.ts';
import type { ListReaders } from '../../domain/enforcement/list-readers.ts';
import {
  NAMELESS,
  STALE_POLICIES,
  type JudgedReader,
  type ReaderKey,
  type ReaderRecord,
} from '../../domain/enforcement/ports.ts';
import { operation } from '../openapi/operation.ts';
import { BY_SERVICE } from '../openapi/description.ts';
import { serviceOf } from '../plugins/authenticate-service.ts';
import {
  MessageSchema,
  Timestamp,
  closedBody,
  integerText,
  orNull,
  refuseBody,
  timestamp,
} from '../schemas.ts';
import { parsePosition, POSITION, positionText, READER_ID } from './revocations.ts';

export interface ReadersRoute {
  confirmReaders: ConfirmReaders;
  listReaders: ListReaders;
}

/** A week: whoever accepts tokens for longer without news has no policy. */
const LONGEST_STALENESS = 604_800;
/** Readers per page. */
const PAGE = 1000;

const common = { tags: ['Registered services'], security: BY_SERVICE, refuses: [] } as const;

const Params = Type.Object({
  reader: Type.String({
    description: 'The id of the process: random, and a new one at each start',
    pattern: READER_ID.source,
    examples: ['q8sT1bYc9AZr3vJ0pXk2mW'],
  }),
});

const label = (pattern: string, description: string, example: string) =>
  Type.String({ description, pattern, examples: [example] });
const Instance = label(
  '^[A-Za-z0-9._:-]{1,128}$',
  'What the service calls this instance, such as the name of its host. Two may share it',
  'orders-7d4f9-x2x9q',
);
const Software = label('^[!-~]{1,64}$', 'What reads the feed', '@latchkey/verifier');
const Version = label('^[!-~]{1,64}$', 'Its version', '1.1.0');
const Audience = Type.String({
  description: 'The audience whose tokens it accepts',
  minLength: 1,
  maxLength: 256,
  examples: ['orders'],
});
const STALENESS = 'After how many seconds without news it does what `when_stale` says';
const MaxStaleness = Type.Integer({
  description: STALENESS,
  minimum: 0,
  maximum: LONGEST_STALENESS,
  examples: [120],
});
const WhenStale = Type.Enum([...STALE_POLICIES], {
  type: 'string',
  description: 'What it does then with tokens: asks about each, refuses all, or accepts them',
  examples: ['introspect'],
});
const Keys = Type.Array(label('^[!-~]{1,128}$', 'A `kid`', '1f0c9c2e'), {
  description: 'The ids of the signing keys that it holds',
  maxItems: 16,
  examples: [['1f0c9c2e']],
});
const Position = label(
  POSITION.source,
  'The `id` of the last heartbeat, up to which it has applied everything',
  'Zm9vYmFy.42',
);

const confirmSchema = operation({
  ...common,
  operationId: 'confirmRevocations',
  summary: 'Say how far this process has applied the feed.',
  description:
    'Send it at a heartbeat whose `id` you have not confirmed yet, or 30 seconds after the last time, and not before `after` seconds have passed. Everything up to `position` must be applied: from then on, others are told that this process refuses what had ended. `@latchkey/verifier` and `@latchkey/agent` do this for you. It needs the right `revocations`.',
  params: Params,
  body: closedBody('Confirmation', {
    position: Position,
    instance: Type.Optional(Instance),
    software: Type.Optional(Software),
    version: Type.Optional(Version),
    audience: Type.Optional(Audience),
    max_staleness: Type.Optional({ ...MaxStaleness, description: `${STALENESS}; only with that` }),
    when_stale: Type.Optional(WhenStale),
    keys: Type.Optional(Keys),
  }),
  response: {
    200: Type.Object(
      {
        msg: Type.String({ description: 'What was done, for people', examples: ['confirmed'] }),
        after: Type.Integer({
          description: 'After how many seconds you may confirm again, at the earliest',
          minimum: 1,
          examples: [1],
        }),
      },
      { title: 'Confirmed', description: 'It is on record', additionalProperties: false },
    ),
  },
});

const goodbyeSchema = operation({
  ...common,
  operationId: 'leaveRevocations',
  summary: 'Say that this process accepts no more tokens.',
  description: 'Nobody waits for it any longer. An unknown id is 200 too. It needs the right `revocations`.',
  params: Params,
  response: { 200: MessageSchema },
});

const ReaderSchema = Type.Object(
  {
    client_id: Type.String({ description: 'The service', examples: ['lkc_n2Kx0pQ4Xc8rVbT1yZsW7A'] }),
    name: Type.String({ description: 'Its name', examples: ['orders'] }),
    reader: orNull(
      Type.String({
        description:
          'The id of the process; `null` for all of the service that have no id, and for those beyond 2,000',
        examples: ['q8sT1bYc9AZr3vJ0pXk2mW'],
      }),
    ),
    instance: orNull(Instance),
    software: orNull(Software),
    version: orNull(Version),
    audience: orNull(Audience),
    max_staleness: orNull(MaxStaleness),
    when_stale: orNull(WhenStale),
    keys: Keys,
    position: orNull(Position),
    behind: orNull(
      Type.Integer({
        description: 'Events that it has not confirmed; `null` if its position is of another epoch',
        minimum: 0,
        examples: [0],
      }),
    ),
    confirmed_at: orNull(Timestamp),
    seen_at: { ...Timestamp, description: 'When it was last connected, or confirmed' },
  },
  { title: 'Reader', description: 'A process that reads the feed', additionalProperties: false },
);

const AFTER = /^[A-Za-z0-9_-]{1,64}:[A-Za-z0-9_-]{0,64}$/;

const listSchema = operation({
  ...common,
  operationId: 'listReaders',
  summary: 'List who reads the feed, and how far each has applied it.',
  description:
    'Readers of all services, also those that are silent: a reader stays until it says goodbye, its service is deleted, or it was silent for 24 hours. It needs the right `readers`.',
  querystring: Type.Object(
    {
      after: Type.Optional(
        Type.String({
          description: 'The `next` of the previous page',
          pattern: AFTER.source,
          examples: ['lkc_n2Kx0pQ4Xc8rVbT1yZsW7A:q8sT1bYc9AZr3vJ0pXk2mW'],
        }),
      ),
      limit: Type.Optional(
        integerText('^([1-9][0-9]{0,2}|1000)$', {
          description: 'The most readers on the page; 1,000 by default',
          minimum: 1,
          maximum: PAGE,
          example: 100,
        }),
      ),
    },
    { additionalProperties: false },
  ),
  response: {
    200: Type.Object(
      {
        readers: Type.Array(ReaderSchema, { description: 'By service', maxItems: PAGE }),
        next: orNull(
          Type.String({
            description: 'Pass it as `after` for the next page; `null` on the last',
            examples: ['lkc_n2Kx0pQ4Xc8rVbT1yZsW7A:q8sT1bYc9AZr3vJ0pXk2mW'],
          }),
        ),
        without_reader: Type.Array(
          Type.Object(
            {
              client_id: Type.String({
                description: 'The service',
                examples: ['lkc_n2Kx0pQ4Xc8rVbT1yZsW7A'],
              }),
              name: Type.String({ description: 'Its name', examples: ['billing'] }),
            },
            { title: 'ServiceWithoutReader', description: 'A service', additionalProperties: false },
          ),
          { description: 'Enabled services with the right `revocations` that no reader is known of' },
        ),
      },
      { title: 'Readers', description: 'A page of readers', additionalProperties: false },
    ),
  },
});

/** Who reads the feed: its readers say how far they are, and a service with the right `readers` reads that. */
export const readersRoutes: FastifyPluginCallbackTypebox<ReadersRoute> = (
  app,
  { confirmReaders, listReaders },
  done,
) => {
  const path = '/api/auth/revocations/readers/:reader';
  // Otherwise each confirmation would be a line of the log.
  const asReader = { ...app.auth.service('revocations'), config: { group: 'introspection' as const } };

  app.put(path, { schema: confirmSchema, ...asReader }, async (request) => {
    const { body } = request;
    requirePolicy(body);
    const after = await confirmReaders.confirm({
      serviceId: serviceOf(request).serviceId,
      reader: request.params.reader,
      position: positionOf(body.position),
      instance: body.instance ?? null,
      software: body.software ?? null,
      version: body.version ?? null,
      audience: body.audience ?? null,
      maxStaleness: body.max_staleness ?? null,
      whenStale: body.when_stale ?? null,
      keys: body.keys ?? [],
    });
    return { msg: 'confirmed', after };
  });

  app.delete(path, { schema: goodbyeSchema, ...asReader }, async (request) => {
    refuseBody(request.body);
    await confirmReaders.sayGoodbye({
      serviceId: serviceOf(request).serviceId,
      reader: request.params.reader,
    });
    return { msg: 'forgotten' };
  });

  app.get(
    '/api/auth/revocations/readers',
    { schema: listSchema, ...app.auth.service('readers') },
    async ({ query }) => {
      const page = await listReaders(
        query.after === undefined ? null : readerKeyOf(query.after),
        Number(query.limit ?? PAGE),
      );
      return {
        readers: page.readers.map(({ reader, behind }) => readerBody(reader, behind)),
        next: page.next && `${page.next.serviceId}:${page.next.reader}`,
        without_reader: page.withoutReader.map(({ serviceId, name }) => ({ client_id: serviceId, name })),
      };
    },
  );
  done();
};

type Body = Static<(typeof confirmSchema)['body']>;

function requirePolicy(body: Body): void {
  for (const [one, other] of [
    ['max_staleness', 'when_stale'],
    ['when_stale', 'max_staleness'],
  ] as const)
    if (body[one] !== undefined && body[other] === undefined)
      throw new AuthError('validation_failed', {
        errors: [{ path: `/${other}`, code: 'required', message: `is required with ${one}` }],
      });
}

function positionOf(text: string) {
  const position = parsePosition(text);
  if (position) return position;
  throw new AuthError('validation_failed', {
    errors: [{ path: '/position', code: 'out_of_range', message: 'must be the id of a heartbeat' }],
  });
}

function readerKeyOf(text: string): ReaderKey {
  const [serviceId = '', reader = ''] = text.split(':');
  return { serviceId, reader };
}

function readerBody(reader: ReaderRecord, behind: number | null): Static<typeof ReaderSchema> {
  return {
    ...readerNames(reader),
    software: reader.software,
    version: reader.version,
    audience: reader.audience,
    max_staleness: reader.maxStaleness,
    when_stale: reader.whenStale,
    keys: [...reader.keys],
    position: reader.position && positionText(reader.position),
    behind,
    confirmed_at: reader.confirmedAt === null ? null : timestamp(reader.confirmedAt),
    seen_at: timestamp(reader.seenAt),
  };
}

/** Which reader it is, in an answer. */
export function readerNames({ serviceId, name, reader, instance }: JudgedReader) {
  return { client_id: serviceId, name, reader: reader === NAMELESS ? null : reader, instance };
}
