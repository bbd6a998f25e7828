/** `latchkey/verifier`: the public API for other services. Everything else in this folder is internal. */
export { authOf } from './bearer.ts';
export { createVerifier, type Verifier } from './create-verifier.ts';
export { fastifyVerifier } from './fastify-verifier.ts';
export type { VerifierOptions, WhenStale } from './options.ts';
export type { TokenClaims, VerifiedToken } from './verified-token.ts';
export { VerifierError, type VerifierErrorCode } from './verifier-error.ts';
export { verifierMiddleware } from './verifier-middleware.ts';
