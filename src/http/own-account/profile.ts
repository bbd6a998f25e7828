import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { TokenLimits } from '../../domain/tokens/token-record.ts';
import type { ChangeProfile } from '../../domain/users/change-profile.ts';
import type { AccountWithTokens, TokenSummary } from '../../domain/users/account-with-tokens.ts';
import { callerTurn } from '../caller/network.ts';
import type { GuessOriginOf } from '../caller/guess-origin.ts';
import { operation } from '../openapi/operation.ts';
import { callerOf, principalOf } from '../plugins/authenticate.ts';
import {
  closedBody,
  Email,
  Id,
  Name,
  NullableLocale,
  Password,
  Scopes,
  Timestamp,
  timestamp,
  Username,
} from '../schemas.ts';
import { userBody, UserSchema } from '../token-pair-response.ts';

interface ProfileRoute {
  accountWithTokens: AccountWithTokens;
  changeProfile: ChangeProfile;
  guessOriginOf: GuessOriginOf;
}

export const TokenSchema = Type.Object(
  {
    id: Id,
    type: Type.Union([Type.Literal('refresh'), Type.Literal('llt'), Type.Literal('limited')], {
      description: 'A session, a long-lived token, or a limited one',
      examples: ['refresh'],
    }),
    name: Type.String({ description: 'The device', examples: ['Kitchen tablet'] }),
    created_at: Timestamp,
    created_by: Type.Union([Id, Type.Null()], {
      description: 'The session that created this long-lived or limited token; `null` for a session',
      examples: [null],
    }),
    scopes: Type.Union([Scopes, Type.Null()], {
      description: 'The scopes of a limited token; `null` for any other',
      examples: [null],
    }),
    audience: Type.Union([Type.String(), Type.Null()], {
      description: 'The audience of a limited token; `null` for any other',
      examples: [null],
    }),
    last_used_at: Type.Union([Timestamp, Type.Null()], {
      description: '`null` if it is not known',
      examples: ['2026-01-09T17:30:00.000Z'],
    }),
    expires_at: Type.Union([Timestamp, Type.Null()], {
      description: '`null` for never',
      examples: ['2026-02-08T17:30:00.000Z'],
    }),
    current: Type.Boolean({ description: 'Whether this is the token of the request', examples: [true] }),
  },
  { title: 'Token', description: 'A session, or a long-lived or limited token', additionalProperties: false },
);

const schema = operation({
  operationId: 'getProfile',
  summary: 'See who is signed in, and with which tokens.',
  description:
    'Returns the account, its live sessions (`refresh`), its long-lived tokens (`llt`) and its limited tokens (`limited`).',
  tags: ['Accounts'],
  security: [{ bearerAuth: [] }],
  refuses: [],
  response: {
    200: Type.Object(
      {
        ...UserSchema.properties,
        locale: NullableLocale,
        tokens: Type.Array(TokenSchema, { description: 'The tokens that may act for the account' }),
      },
      {
        title: 'Profile',
        description: 'An account, and the tokens that may act for it',
        additionalProperties: false,
      },
    ),
  },
});

const changeSchema = operation({
  operationId: 'changeProfile',
  summary: 'Change the name, the username, the e-mail address or the language.',
  description:
    'Send any of the four, and with a username or an e-mail address also `current_password`. `locale: null` removes the language. The rules for names are those of signup, and a wrong password counts as a failed login. A new e-mail address makes a reset token invalid. With `EMAIL_VERIFICATION=true`, another address or spelling is [pending](#/Accounts/changeEmail) instead: it gets a mail, and until it is proved, only the present one logs in and gets other mails. Sending the present one, or changing the password, withdraws it. An account gets at most 3 such mails in an hour, and so does an address. You may repeat the request. A long-lived token may not do this.',
  tags: ['Accounts'],
  security: [{ bearerAuth: [] }],
  refuses: [
    'username_taken',
    'email_taken',
    'invalid_credentials',
    'token_not_allowed',
    'login_too_old',
    'rate_limited',
    'overloaded',
  ],
  body: closedBody('ProfileChange', {
    name: Type.Optional(Name),
    username: Type.Optional(Username),
    email: Type.Optional(Email),
    locale: Type.Optional(NullableLocale),
    current_password: Type.Optional({ ...Password, description: 'Needed with `username` and `email`' }),
  }),
  response: { 200: UserSchema },
});

export const profileRoute: FastifyPluginCallbackTypebox<ProfileRoute> = (app, options, done) => {
  const { accountWithTokens, changeProfile, guessOriginOf } = options;
  app.get('/api/user', { schema, onRequest: app.auth.principal }, async (request) => {
    const { user, locale, tokens } = await accountWithTokens(principalOf(request));
    return { ...userBody(user), locale, tokens: tokens.map(tokenBody) };
  });

  // Limited even without a password: each change writes a row and an audit event, and reaches every replica.
  const { onRequest: authenticate, preValidation } = app.auth.change;
  const onRequest = [app.refuseWhenLate, authenticate, app.refuseWhenStoreFull, app.limitByAddress('login')];
  app.patch('/api/user', { schema: changeSchema, onRequest, preValidation }, async (request) => {
    const { current_password: currentPassword, ...names } = request.body;
    const user = await changeProfile(callerOf(request), {
      names,
      currentPassword,
      turn: callerTurn(request),
      origin: await guessOriginOf(request),
      from: request,
    });
    return userBody(user);
  });
  done();
};

export function tokenBody({ id, type, name, createdAt, createdBy, ...token }: TokenSummary) {
  const { limited, lastUsedAt, expiresAt, current } = token;
  return {
    id,
    type,
    name,
    created_at: timestamp(createdAt),
    created_by: createdBy,
    ...limitsBody(limited),
    last_used_at: lastUsedAt === null ? null : timestamp(lastUsedAt),
    expires_at: expiresAt === null ? null : timestamp(expiresAt),
    current,
  };
}

/** What a limited token is good for, as the lists of tokens show it. */
export function limitsBody(limited: TokenLimits | null) {
  return { scopes: limited && [...limited.scopes], audience: limited?.audience ?? null };
}
