import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type, { type Static } from 'typebox';
import { AuthError } from '../../domain/errors.ts';
import {
  LONGEST_WAIT,
  MOST_WAITING,
  type Enforcement,
  type EnforcementAnswer,
} from '../../domain/enforcement/enforcement.ts';
import type { Target } from '../../domain/enforcement/ports.ts';
import { operation } from '../openapi/operation.ts';
import { BY_SERVICE } from '../openapi/description.ts';
import { serviceOf } from '../plugins/authenticate-service.ts';
import { IdText, Timestamp, integerText, orNull, parseId, timestamp } from '../schemas.ts';
import { readerNames } from './readers.ts';

export interface EnforcementRoute {
  enforcement: Pick<Enforcement, 'ask'>;
}

/** Seconds. */
const DEFAULT_WAIT = 5;

const Query = Type.Object(
  {
    token: Type.Optional({ ...IdText, description: 'The id of a token, which is its claim `sid`' }),
    user: Type.Optional({
      ...IdText,
      description: 'The id of a user: all tokens of the user that have ended',
    }),
    all: Type.Optional(
      Type.Enum(['true'], {
        type: 'string',
        description: 'Everything that has ended until now',
        examples: ['true'],
      }),
    ),
    wait: Type.Optional(
      integerText('^([12]?[0-9]|30)$', {
        description:
          'How many seconds to wait until it is done; 5 by default. An answer needs about two to know that a reader has enforced it',
        minimum: 0,
        maximum: LONGEST_WAIT,
        example: 10,
      }),
    ),
  },
  { additionalProperties: false },
);

const count = (description: string) => Type.Integer({ description, minimum: 0, examples: [3] });
const Answer = Type.Object(
  {
    ended_at: orNull({
      ...Timestamp,
      description: 'The latest end; `null` if the target is unknown or has not ended',
    }),
    published: orNull({ ...Timestamp, description: 'When the feed had all of it; `null` before' }),
    done: Type.Boolean({
      description: 'It is published, and no reader is `pending` or `unknown`',
      examples: [true],
    }),
    counts: Type.Object(
      {
        enforced: count('Readers that have confirmed it'),
        bounded: count('Readers that refuse it or ask, by their policy or because it has expired'),
        pending: count('Readers that were seen within 45 seconds, or whose policy will bound them'),
        unknown: count('Readers that are silent, and bounded by nothing but expiry'),
      },
      { description: 'The readers by their state', additionalProperties: false },
    ),
    waiting: Type.Array(
      Type.Object(
        {
          client_id: Type.String({ description: 'The service', examples: ['lkc_n2Kx0pQ4Xc8rVbT1yZsW7A'] }),
          name: Type.String({ description: 'Its name', examples: ['orders'] }),
          reader: orNull(
            Type.String({
              description: 'The process; `null` for all without an id',
              examples: ['q8sT1bYc9AZr3vJ0pXk2mW'],
            }),
          ),
          instance: orNull(
            Type.String({ description: 'What the service calls it', examples: ['orders-7d4f9-x2x9q'] }),
          ),
          state: Type.Union([Type.Literal('pending'), Type.Literal('unknown')], { description: 'Its state' }),
          until: orNull({
            ...Timestamp,
            description: 'When it is bounded at the latest; `null` for never, or before it is published',
          }),
          by: orNull(
            Type.Union([Type.Literal('policy'), Type.Literal('expired')], {
              description: 'What bounds it then: its policy, or that the tokens expire',
            }),
          ),
        },
        { title: 'WaitingReader', description: 'A reader', additionalProperties: false },
      ),
      { description: 'Who is `pending` or `unknown`', maxItems: MOST_WAITING },
    ),
  },
  { title: 'Enforcement', description: 'Who refuses what has ended', additionalProperties: false },
);

const schema = operation({
  operationId: 'getEnforcement',
  summary: 'Ask which readers of the feed refuse what has ended.',
  description:
    'Send one of `token`, `user` and `all`. The answer comes once all readers refuse it, or after `wait` seconds. What a reader says of itself is not checked, and requests that it had accepted before may still run. It needs the right `readers`.',
  tags: ['Registered services'],
  security: BY_SERVICE,
  refuses: [],
  querystring: Query,
  response: { 200: Answer },
});

/** Who has enforced a revocation. */
export const enforcementRoute: FastifyPluginCallbackTypebox<EnforcementRoute> = (
  app,
  { enforcement },
  done,
) => {
  app.get(
    '/api/auth/revocations/enforcement',
    { schema, ...app.auth.service('readers') },
    async (request, reply) => {
      const { query } = request;
      const gone = new AbortController();
      // Also after the answer, when nobody listens any more.
      reply.raw.once('close', () => {
        gone.abort();
      });
      const wait = Number(query.wait ?? DEFAULT_WAIT);
      const { serviceId } = serviceOf(request);
      return answerBody(await enforcement.ask(targetOf(query), wait, serviceId, gone.signal));
    },
  );
  done();
};

function targetOf({ token, user, all }: Static<typeof Query>): Target {
  if ([token, user, all].filter((each) => each !== undefined).length !== 1)
    throw new AuthError('validation_failed', {
      errors: [{ path: '', code: 'not_allowed', message: 'there must be one of token, user and all' }],
    });
  if (token !== undefined) return { token: parseId(token, '/token') };
  return user === undefined ? { all: true } : { user: parseId(user, '/user') };
}

function answerBody({ endedAt, published, done, counts, waiting }: EnforcementAnswer): Static<typeof Answer> {
  return {
    ended_at: dateOf(endedAt),
    published: dateOf(published),
    done,
    counts,
    waiting: waiting.map(({ reader, state, until, by }) => ({
      ...readerNames(reader),
      state: state === 'pending' ? state : 'unknown',
      until: dateOf(until),
      by,
    })),
  };
}

function dateOf(at: number | null): string | null {
  return at === null ? null : timestamp(at);
}
