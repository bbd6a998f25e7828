import { readFileSync } from 'node:fs';
import { REQUEST_ID } from '../plugins/request-context.ts';
import { BASIC_CHALLENGE } from '../problem.ts';

/** The parts of the document that describe the whole service. */

/** In the order of the page: what a newcomer needs first. */
export const TAGS = {
  Sessions:
    'A session is one device’s login. Each refresh gives it a new pair of tokens, and only the newest pair is good.',
  'Long-lived tokens':
    'For a device that cannot refresh. Each is good until it is deleted, or until `LLT_MAX_AGE` if that is set.',
  Logout: 'Ends one session or long-lived token, or all of a user.',
  'Limited tokens':
    'For scripts and pipelines that should do less than their user: each has scopes that the user chose, and expires.',
  Accounts: 'What users do with their own account: see and change it, set a password, list its tokens.',
  Verification: 'How a proxy asks whether a token is good.',
  'Registered services':
    'For services that an operator has registered (`latchkey client create`). They send their id and secret, or a service token.',
  Users: 'How a registered service manages accounts. Each operation names the right that it needs.',
  Discovery: 'Public documents from which libraries learn keys and addresses.',
} as const;

export type Tag = keyof typeof TAGS;

export const SECURITY_SCHEMES = {
  bearerAuth: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description:
      'The `access_token` of the newest pair, or a long-lived token. A limited token only where the operation says so.',
  },
  bearerRefreshToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The `refresh_token` of the newest pair. It is good once, and the answer has the next one.',
  },
  serviceToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description:
      'A service token for `ISSUER` (`grant_type=client_credentials`), which has the rights of its service.',
  },
  serviceClient: {
    type: 'http',
    scheme: 'basic',
    description:
      'The id and secret of a registered service. Form-encode each before you join them (RFC 6749, section 2.3.1).',
  },
} as const;

export type SecurityScheme = keyof typeof SECURITY_SCHEMES;

/** A registered service: by its secret, or by its own token. */
export const BY_SERVICE = [{ serviceClient: [] }, { serviceToken: [] }] as const;

const DESCRIPTION = `Latchkey signs users in and keeps them signed in. This page describes every operation and lets you try it.

**To try one**, sign up with [the first operation](#/Sessions/signUp), or log in. From then on the page sends the
tokens of the newest pair that it got, also after a [refresh](#/Sessions/refresh), which replaces both. **Authorize**
shows them, and takes others. The page keeps tokens in memory only, so a reload forgets them.

**A client** sends tokens as \`Authorization: Bearer …\`. An access token is good for minutes, and a refresh token for
one refresh. Store a new pair before you use it. If a refresh answers 401 or 403 with a \`code\` other than
\`token_missing\`, the user is signed out; after any other answer, or none, keep the session and retry with the same
refresh token, after \`Retry-After\` if there is one. The library \`@latchkey/client\` does all of this in JavaScript.

**A service** asks about its callers' tokens: a proxy in front of it calls [verify](#/Verification/verify), and a
service itself [introspects](#/Registered%20services/introspect) them, or checks them with the
[public keys](#/Discovery/getJwks) and follows the [feed of revocations](#/Registered%20services/revocations), as
\`@latchkey/verifier\` and \`@latchkey/agent\` do.

**Errors** are problem details (RFC 9457). Branch on \`code\`, which never changes its meaning; \`title\` and
\`detail\` are for people. A path that is not listed here answers 404 \`not_found\`, and a method that is not listed
405 \`method_not_allowed\` with \`Allow\`; HEAD works only for operations with \`x-head\`. Even a request that is not
valid HTTP gets an error in this format. For OAuth libraries, some operations add \`error\` and
\`error_description\` (RFC 6749) to the body, and send it as \`application/json\` if the client accepts that and no
problem details.

**Bodies** are JSON in UTF-8 of at most 16 KiB. A property that is not listed here is refused, and no value is
converted. A form ignores parameters that are not listed, and refuses repeated ones. A request without a body may carry
\`Content-Type: application/json\`. Latchkey normalises and trims text before it compares or measures it in code
points, and the limits in these schemas hold for that form.

**Every answer** has an \`X-Request-Id\`, which is also in Latchkey’s log, and \`Cache-Control: no-store\` unless it
is a public document.`;

/** The document without its operations. */
export const SERVICE = {
  openapi: '3.1.0',
  info: {
    title: 'Latchkey',
    summary: 'Authentication and token microservice',
    description: DESCRIPTION,
    version: readVersion(),
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
  },
  servers: [{ url: '/', description: 'The Latchkey that shows this page' }],
  tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
};

const EXAMPLE_ETAG = '"nYq0bUXOXkhyzZJLQsNbjVNmVNl4o3cFkGEVfLqJmUU"';

/** Headers, by the names of their components. */
export const HEADERS = {
  RequestId: {
    description: 'Your `X-Request-Id` if it was valid, else a new one.',
    required: true,
    schema: {
      type: 'string',
      pattern: REQUEST_ID.source,
      examples: ['3f0c1d52-7a8e-4a44-9a53-5d6f3c1b2a90'],
    },
  },
  CacheControl: {
    description: 'No cache may store the answer.',
    required: true,
    schema: { type: 'string', const: 'no-store' },
  },
  Challenge: {
    description:
      '`error="invalid_token"` means that the token you sent is the reason, so a refresh may help (RFC 6750).',
    required: true,
    schema: { type: 'string', enum: ['Bearer', 'Bearer error="invalid_token"'] },
  },
  ScopeChallenge: {
    description:
      'Only with `insufficient_scope`: names all scopes that are demanded here (RFC 6750), or none if no limited token is good here.',
    required: false,
    schema: {
      type: 'string',
      pattern: '^Bearer error="insufficient_scope"(, scope="[a-z0-9:_ -]+")?$',
      examples: ['Bearer error="insufficient_scope", scope="orders:read"'],
    },
  },
  ProofChallenge: {
    description:
      'As `Challenge`; or names what is demanded of the login, so that only a new login helps (RFC 9470).',
    required: true,
    schema: {
      type: 'string',
      pattern:
        '^Bearer( error="invalid_token"| error="insufficient_user_authentication"(, acr_values="mfa")?(, max_age="[1-9][0-9]*")?)?$',
      examples: ['Bearer error="insufficient_user_authentication", acr_values="mfa", max_age="300"'],
    },
  },
  ServiceChallenge: {
    description:
      'Asks for an id and a secret (RFC 7617), or refuses the token that the service sent instead (RFC 6750).',
    required: true,
    schema: { type: 'string', enum: [BASIC_CHALLENGE, 'Bearer', 'Bearer error="invalid_token"'] },
  },
  PublicCacheControl: {
    description: 'Any cache may store it for half of `KEY_PUBLISH_LEAD`, but for 300 seconds at most.',
    required: true,
    schema: { type: 'string', pattern: '^public, max-age=[0-9]+$', examples: ['public, max-age=300'] },
  },
  ETag: {
    description: 'Send it as `If-None-Match` the next time.',
    required: true,
    schema: { type: 'string', pattern: '^"[A-Za-z0-9_-]{43}"$', examples: [EXAMPLE_ETAG] },
  },
  AllowOrigin: {
    description: 'Scripts of any origin may read it.',
    required: true,
    schema: { type: 'string', const: '*' },
  },
  RetryAfter: {
    description: 'How many seconds to wait before a retry.',
    required: true,
    schema: { type: 'string', pattern: '^[1-9][0-9]*$', examples: ['1'] },
  },
};

/** Parameters that every operation takes. */
export const PARAMETERS = {
  RequestId: {
    in: 'header',
    name: 'X-Request-Id',
    description:
      'Your name for this request, of 1 to 64 letters, digits and hyphens. The answer and Latchkey’s log repeat it; an invalid one is replaced.',
    required: false,
    schema: { type: 'string' },
  },
};

function readVersion(): string {
  const file = new URL('../../../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
