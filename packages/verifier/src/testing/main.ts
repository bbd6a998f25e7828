/** For the tests of services: `@latchkey/verifier/testing`. */
export { fakeVerifier } from './fake-verifier.ts';
export {
  testIssuer,
  type TestIssuer,
  type TestIssuerOptions,
  type TokenTerms,
  type UserChange,
} from './test-issuer.ts';
export type { TestServiceToken, TestToken } from './test-token.ts';
