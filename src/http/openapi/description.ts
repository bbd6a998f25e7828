import { readFileSync } from 'node:fs';
import { REQUEST_ID } from '../plugins/request-context.ts';
import { BASIC_CHALLENGE } from '../problem.ts';

/** The parts of the document that describe the whole service. */

/** In the order of the page: what a newcomer needs first. */
export const TAGS = {
  Sessions: 'A session is one device’s login: a chain of token pairs of which only the newest is good.',
  'Long-lived tokens': 'Each is for one named device, until it is deleted or, with `LLT_MAX_AGE`, expires.',
  Logout: 'Ends one token, or all of a user.',
  Accounts: 'For the user: the profile, its tokens, and the password.',
  Verification: 'For other services that check tokens.',
  'Registered services':
    'For services that the operator has given an id and a secret (`latchkey client create`).',
  Users: 'Accounts, for registered services with the rights `users.read`, `users.write` and `users.reset`.',
  Discovery: 'Public documents for verifying tokens without a request.',
} as const;

export type Tag = keyof typeof TAGS;

export const SECURITY_SCHEMES = {
  bearerAuth: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The `access_token` of a pair, or a long-lived token.',
  },
  bearerRefreshToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The `refresh_token` of a pair. It is good once: the answer holds the next one.',
  },
  serviceToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description:
      'A service token for `ISSUER` (`grant_type=client_credentials`). It has its client’s rights.',
  },
  serviceClient: {
    type: 'http',
    scheme: 'basic',
    description:
      'The id and secret of a registered service, each form-encoded before they are joined (RFC 6749, section 2.3.1).',
  },
} as const;

export type SecurityScheme = keyof typeof SECURITY_SCHEMES;

/** A registered service: by its secret, or by its own token. */
export const BY_SERVICE = [{ serviceClient: [] }, { serviceToken: [] }] as const;

const DESCRIPTION = `Accounts, login, refresh, logout, and long-lived tokens for devices.

**To try** an operation, sign up and paste both tokens at **Authorize**: \`access_token\` as bearerAuth,
\`refresh_token\` as bearerRefreshToken.

**Tokens** travel as \`Authorization: Bearer …\` and nowhere else. An access token is good for minutes, a refresh
token for one refresh. “Rules for clients” in \`docs/api.md\` says how to store them and when to retry, and
\`@latchkey/client\` does it. Examples: \`examples/spa\` is a page with that library, \`examples/bff\` a backend that
keeps the tokens out of the browser.

**Errors** are problem details (RFC 9457). Branch on \`code\`, which never changes its meaning; \`title\` and
\`detail\` are for people. A path that is not listed here is 404 \`not_found\`, a method that is not listed 405
\`method_not_allowed\` with \`Allow\`; HEAD is accepted only on operations with \`x-head\`. A request that is not
valid HTTP is refused in the same format. For OAuth libraries, some operations add \`error\` and \`error_description\`
(RFC 6749) to the body, and send it as \`application/json\` if the client accepts that and no problem details.

**Requests** with a body send JSON in UTF-8, of at most 16 KiB; a property that is not listed here is refused, and no
value is converted. In a form, parameters that are not listed are ignored, and repeated ones are refused. If there is
no body, \`Content-Type: application/json\` with an empty body is accepted. Text is compared and measured in code
points, after Unicode normalisation and trimming, and the limits of texts in these schemas hold for that form.

**Every answer** carries \`X-Request-Id\`, which is also in the service’s log, and \`Cache-Control: no-store\` unless
it is a public document.`;

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
  servers: [{ url: '/', description: 'The service that shows this document' }],
  tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
};

const EXAMPLE_ETAG = '"nYq0bUXOXkhyzZJLQsNbjVNmVNl4o3cFkGEVfLqJmUU"';

/** Headers, by the names of their components. */
export const HEADERS = {
  RequestId: {
    description: 'The caller’s `X-Request-Id` if it is valid, or a new one.',
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
      'RFC 6750: `error="invalid_token"` only if a token was sent and is the reason; then a refresh may help.',
    required: true,
    schema: { type: 'string', enum: ['Bearer', 'Bearer error="invalid_token"'] },
  },
  ServiceChallenge: {
    description:
      'RFC 7617: a service authenticates with its id and secret. RFC 6750 if it sent a token instead, which is the reason.',
    required: true,
    schema: { type: 'string', enum: [BASIC_CHALLENGE, 'Bearer', 'Bearer error="invalid_token"'] },
  },
  PublicCacheControl: {
    description: 'Any cache may store it, for half of `KEY_PUBLISH_LEAD`, 300 seconds at most.',
    required: true,
    schema: { type: 'string', pattern: '^public, max-age=[0-9]+$', examples: ['public, max-age=300'] },
  },
  ETag: {
    description: 'For `If-None-Match`.',
    required: true,
    schema: { type: 'string', pattern: '^"[A-Za-z0-9_-]{43}"$', examples: [EXAMPLE_ETAG] },
  },
  AllowOrigin: {
    description: 'Scripts of any origin may read it.',
    required: true,
    schema: { type: 'string', const: '*' },
  },
  RetryAfter: {
    description: 'Seconds after which to retry.',
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
      'Your name for this request, 1 to 64 of `A-Z a-z 0-9 -`: the answer and our log repeat it. An invalid id is replaced by a new one.',
    required: false,
    schema: { type: 'string' },
  },
};

function readVersion(): string {
  const file = new URL('../../../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
