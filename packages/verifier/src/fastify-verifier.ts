import { authenticate, checksOf, type BearerOptions } from './bearer.ts';
import type { Verifier } from './create-verifier.ts';
import type { TokenType } from './verified-token.ts';
import type { VerifierError } from './verifier-error.ts';

/** What this plugin uses of Fastify's request, in every release of Fastify 5. */
export interface FastifyRequestLike {
  headers: { authorization?: string | undefined; 'x-request-id'?: string | string[] | undefined };
  method: string;
  url: string;
  log: Record<'debug' | 'info' | 'warn', (details: object, message: string) => void>;
}

interface FastifyReplyLike {
  code(status: number): unknown;
  headers(values: Record<string, string>): unknown;
  send(payload: string): unknown;
}

/**
 * The same of Fastify's instance. Fastify's own types would be another package's: a service that uses Express could not
 * compile, and neither could one with another release of Fastify 5.
 */
export interface FastifyLike {
  hasRequestDecorator(name: string): boolean;
  decorateRequest(name: 'auth', value: null): unknown;
  addHook(
    name: 'onRequest',
    hook: (request: FastifyRequestLike, reply: FastifyReplyLike) => Promise<unknown>,
  ): unknown;
}

export interface FastifyVerifierOptions extends BearerOptions<FastifyRequestLike> {
  verifier: Pick<Verifier<TokenType>, 'verify'>;
}

/**
 * For Fastify 5: every route of the registering context requires a good token, and reads it with `authOf(request)`.
 * Register public routes in another context.
 */
export function fastifyVerifier(
  app: FastifyLike,
  { verifier, onRefused, ...options }: FastifyVerifierOptions,
  done: () => void,
): void {
  const checks = checksOf(withoutFastifys(options));
  if (!app.hasRequestDecorator('auth')) app.decorateRequest('auth', null);
  app.addHook('onRequest', async (request, reply) => {
    const heard = (error: VerifierError, id: string) => onRefused?.(error, request, id);
    const { authorization, 'x-request-id': id } = request.headers;
    const outcome = await authenticate(verifier, authorization, heard, checks, id);
    if ('auth' in outcome) {
      (request as { auth?: unknown }).auth = outcome.auth;
      return;
    }
    const { status, headers, body } = outcome.refusal;
    reply.code(status);
    reply.headers(headers);
    return reply.send(body);
  });
  done();
}

/** `register` passes on its own options too. */
function withoutFastifys<Options extends object>(options: Options): Options {
  const own = Object.entries(options).filter(([name]) => !FASTIFYS.has(name));
  return Object.fromEntries(own) as Options;
}

const FASTIFYS: ReadonlySet<string> = new Set(['prefix', 'logLevel', 'logSerializers']);

// The same as the package fastify-plugin does: the hook applies to the registering context, not to a new child context.
Object.assign(fastifyVerifier, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'latchkey-verifier',
  [Symbol.for('plugin-meta')]: { name: 'latchkey-verifier', fastify: '5.x' },
});
