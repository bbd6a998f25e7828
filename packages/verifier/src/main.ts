/** The public API for other services. Everything else in this folder is internal. */
export { authOf } from './bearer.ts';
export { createVerifier, type Verifier } from './create-verifier.ts';
export { fastifyVerifier, type FastifyVerifierOptions } from './fastify-verifier.ts';
export type { VerifierOptions, WhenStale } from './options.ts';
export type { Actor, TokenClaims, VerifiedToken } from './verified-token.ts';
export {
  VerifierError,
  type OutageReason,
  type RefusalReason,
  type VerifierErrorCode,
  type VerifierErrorReason,
} from './verifier-error.ts';
export { verifierMiddleware } from './verifier-middleware.ts';
