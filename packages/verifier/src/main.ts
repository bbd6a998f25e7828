/** The public API for other services. Everything else in this folder is internal. */
export { authOf, type Expected } from './bearer.ts';
export { createTokens, type Tokens } from './create-tokens.ts';
export { createVerifier, type Verifier } from './create-verifier.ts';
export type { Demand } from './demand.ts';
export type { UserEvent } from './feed-message.ts';
export { fastifyVerifier, type FastifyVerifierOptions } from './fastify-verifier.ts';
export type { ClientOptions, TokensOptions, VerifierOptions, WhenStale } from './options.ts';
export type { Scope } from './scope.ts';
export type {
  Actor,
  LimitedToken,
  LimitedTokenClaims,
  ServiceToken,
  ServiceTokenClaims,
  TokenClaims,
  TokenType,
  UserToken,
  VerifiedToken,
} from './verified-token.ts';
export {
  VerifierError,
  type OutageReason,
  type RefusalReason,
  type VerifierErrorCode,
  type VerifierErrorOption,
  type VerifierErrorReason,
} from './verifier-error.ts';
export { refusalOf, verifyRequest, type VerifiedRequest } from './verify-request.ts';
export { verifierMiddleware } from './verifier-middleware.ts';
