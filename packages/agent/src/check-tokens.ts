import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import {
  authOf,
  verifierMiddleware,
  VerifierError,
  type LimitedToken,
  type TokenType,
  type VerifiedToken,
  type Verifier,
} from '@latchkey/verifier';
import { answerProblem, requestIdOf } from './problems.ts';

interface Parts {
  verifier: Pick<Verifier<TokenType>, 'verify' | 'accept'>;
  audience: string;
  /** Called after each check, with null if the token is good. @param requestId of the problem. */
  checked: (refusal: VerifierError | null, requestId?: string) => void;
  /** Called with the error of a check that ended in neither. */
  failed: (error: unknown, requestId: string) => unknown;
}

/** Bytes, as at Latchkey. */
const MAX_BODY = 16_384;
/** Where Latchkey's verify takes demands: with a further path, the query is a client's. */
const EXACT = /^(?:\/scopes\/[^/]+)?\/verify\/?$/;
/** The scopes are the path's, because some proxies pass on the query of their clients. */
const IN_SCOPE = /^\/scopes\/([^/]+)\/verify(?:\/|$)/;
const FORM = 'application/x-www-form-urlencoded';

/** Answers `/verify` and `/scopes/{scopes}/verify`, for any method and any path below, and `POST /introspect` (RFC 7662). */
export function makeCheckTokens({ verifier, audience, checked, failed }: Parts): RequestListener {
  const { accept } = verifier;
  const onRefused = (error: VerifierError, _request: unknown, id: string) => {
    checked(error, id);
  };
  const guardOf = (scope?: readonly string[]) => verifierMiddleware(verifier, { onRefused, scope });
  const guard = guardOf();

  function verify(request: IncomingMessage, response: ServerResponse, guarded = guard): void {
    guarded(request, response, (error) => {
      if (error !== undefined) return fail(response, error);
      if (isDemanding(request)) return refuseDemand(response);
      checked(null);
      return response.writeHead(200, headersOf(authOf(request, { accept, limited: true }))).end();
    });
  }

  /** As Latchkey refuses a demand that it does not understand. */
  function refuseDemand(response: ServerResponse): unknown {
    const code = 'insufficient_user_authentication';
    const id = requestIdOf(response.req);
    checked(new VerifierError(code, 'configuration', 'the agent checks no demand_… of a proxy'), id);
    return answerProblem(response, code, { 'www-authenticate': `Bearer error="${code}"` }, id);
  }

  /** @param names of scopes, separated by commas. A mistake in a proxy's configuration shows at every request. */
  function verifyInScope(request: IncomingMessage, response: ServerResponse, names: string): void {
    let guarded: typeof guard;
    try {
      guarded = guardOf(decodeURIComponent(names).split(','));
    } catch {
      answerProblem(response, 'not_found');
      return;
    }
    verify(request, response, guarded);
  }

  async function introspect(
    request: IncomingMessage,
    response: ServerResponse,
    id: string,
  ): Promise<unknown> {
    if (request.method !== 'POST') return answerProblem(response, 'method_not_allowed', { allow: 'POST' });
    if ((request.headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() !== FORM)
      return answerProblem(response, 'unsupported_media_type');
    const body = await bodyOf(request);
    if (body === null) return answerProblem(response, 'body_too_large', { connection: 'close' });
    const [token, ...others] = new URLSearchParams(body).getAll('token');
    if (!token || others.length > 0) return answerProblem(response, 'validation_failed');
    const answer = JSON.stringify(await introspection(token, id));
    const headers = {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(answer),
      'cache-control': 'no-store',
      'x-latchkey-audience': encodeURI(audience),
    };
    return response.writeHead(200, headers).end(answer);
  }

  async function introspection(token: string, id: string): Promise<object> {
    try {
      const verified = await verifier.verify(token);
      checked(null);
      const { claims, tokenType, roles } = verified;
      const isProved = verified.tokenType !== 'service' && verified.emailVerified;
      // As at Latchkey: what the claims say of the user may be older.
      return {
        ...claims,
        active: true,
        token_type: 'Bearer',
        token_use: tokenType,
        roles,
        email_verified: isProved ? true : undefined,
      };
    } catch (error) {
      if (!(error instanceof VerifierError)) throw error;
      checked(error, id);
      if (error.code === 'unavailable') throw error;
      return { active: false };
    }
  }

  function fail(response: ServerResponse, error: unknown, id = requestIdOf(response.req)): unknown {
    if (response.headersSent || response.destroyed) return null;
    if (error instanceof VerifierError) return answerProblem(response, 'unavailable', undefined, id);
    failed(error, id);
    return answerProblem(response, 'internal_error', undefined, id);
  }

  function introspectOrFail(request: IncomingMessage, response: ServerResponse): void {
    const id = requestIdOf(request);
    introspect(request, response, id).catch((error: unknown) => void fail(response, error, id));
  }

  return (request, response) => {
    const [path = ''] = (request.url ?? '').split('?');
    const [, scopes] = IN_SCOPE.exec(path) ?? [];
    if (path === '/verify' || path.startsWith('/verify/')) verify(request, response);
    else if (scopes !== undefined) verifyInScope(request, response, scopes);
    else if (path === '/introspect') introspectOrFail(request, response);
    else answerProblem(response, 'not_found');
  };
}

function isDemanding({ url = '' }: IncomingMessage): boolean {
  const [path = '', ...query] = url.split('?');
  if (!EXACT.test(path)) return false;
  return [...new URLSearchParams(query.join('?')).keys()].some((name) => /^demand_/i.test(name));
}

/** Every header is always sent: a proxy overwrites with it what its client sent. Tokens hold no name. */
function headersOf(token: VerifiedToken<TokenType> | LimitedToken) {
  const isService = token.tokenType === 'service';
  const actor = 'act' in token ? token.act.sub : undefined;
  return {
    'x-auth-user': isService ? '' : token.userId,
    'x-auth-username': '',
    'x-auth-roles': token.roles.join(','),
    'x-auth-session': isService ? '' : token.sid,
    'x-auth-token-type': token.tokenType,
    'x-auth-client': isService ? token.clientId : (actor ?? ''),
    'cache-control': 'no-store',
    'content-length': 0,
  };
}

/** @returns null if it is too large. */
async function bodyOf(request: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_BODY) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
