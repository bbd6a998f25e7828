export {
  createClient,
  type Client,
  type ClientOptions,
  type Login,
  type PasskeyAnswer,
  type SecondStep,
  type Signup,
} from './create-client.ts';
export { LatchkeyError, type FieldError, type OwnCode, type Problem } from './latchkey-error.ts';
export type { Operations } from './operations.ts';
export type { User } from './pair.ts';
export type { Session, TokenStorage } from './session-store.ts';
