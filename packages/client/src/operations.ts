// `npm run openapi` writes this file.

/**
 * The operations that `client.request` can send, by path and method. An id stands for itself in the path, and a
 * parameter in the query.
 */
export interface Operations {
  '/api/auth/signup': {
    /** Create an account and sign its user in. */
    POST: { body: SignUp; answer: Pair };
  };
  '/api/auth': {
    /** Log in with a password, which opens a session. */
    POST: { body: LogIn; answer: Pair };
    /** Log out. */
    DELETE: { answer: Message };
  };
  [path: `/api/auth?id=${number}`]: {
    /** Log out. */
    DELETE: { answer: Message };
  };
  '/api/auth/second-factor': {
    /** Take the second step of a login, or log in with a passkey, which opens the session. */
    POST: { body: SecondStep; answer: Pair };
  };
  '/api/auth/password-reset-request': {
    /** Ask for a mail with a reset token. */
    POST: { body: PasswordResetRequest; answer: Message };
  };
  '/api/auth/password-reset': {
    /** Set a new password with a reset token. */
    POST: { body: PasswordReset; answer: Message };
  };
  '/api/auth/email-verification': {
    /** Verify an e-mail address with the token of a mail. */
    POST: { body: EmailVerification; answer: Message };
  };
  '/api/auth/refresh': {
    /** Exchange the refresh token for the next pair of tokens. */
    GET: { answer: Pair };
  };
  [path: `/api/auth/${number}`]: {
    /** End the session or the long-lived token with this id. */
    DELETE: { answer: Message };
  };
  [path: `/api/user/tokens/${number}`]: {
    /** End the token with this id, as the list of tokens shows it. */
    DELETE: { answer: Message };
  };
  '/api/auth/llt': {
    /** Create a token for a device that cannot refresh. */
    POST: { body: CreateLongLivedToken; answer: LongLivedToken };
  };
  [path: `/api/auth/llt/${number}`]: {
    /** Delete a long-lived token. */
    DELETE: { answer: Message };
  };
  '/api/auth/passkey': {
    /** Get what a browser needs for a login with a passkey. */
    POST: { answer: PasskeyLoginOptions };
  };
  '/api/user': {
    /** See who is signed in, and with which tokens. */
    GET: { answer: Profile };
    /** Change the name, the username, the e-mail address or the language. */
    PATCH: { body: ProfileChange; answer: User };
  };
  '/api/user/password': {
    /** Change the password, which signs out the user’s other devices. */
    POST: { body: PasswordChange; answer: PasswordChanged };
  };
  '/api/user/email': {
    /** See the own e-mail address, and whether it is verified. */
    GET: { answer: Address };
    /** Prove the pending e-mail address, which takes the place of the present one. */
    POST: { body: EmailChange; answer: Message };
  };
  '/api/user/email-verification': {
    /** Ask for a mail that verifies the e-mail address. */
    POST: { answer: Message };
  };
  '/api/user/factors': {
    /** List the own second factors. */
    GET: { answer: OwnFactors };
  };
  '/api/user/factors/recovery-codes': {
    /** Get new recovery codes. */
    POST: { body: FactorChange; answer: NewRecoveryCodes };
  };
  [path: `/api/user/factors/${number}/removal`]: {
    /** Remove a second factor. */
    POST: { body: FactorChange; answer: Message };
  };
  '/api/user/factors/totp': {
    /** Set up an authenticator app as second factor. */
    POST: { body: FactorChange; answer: NewTotp };
  };
  '/api/user/factors/totp/confirm': {
    /** Confirm the authenticator app, which makes it the second factor. */
    POST: { body: TotpConfirmation; answer: ConfirmedTotp };
  };
  '/api/user/factors/passkey': {
    /** Begin to add a passkey. */
    POST: { body: FactorChange; answer: PasskeyCreationOptions };
  };
  '/api/user/factors/passkey/confirm': {
    /** Confirm the passkey, which makes it a second factor and a login of its own. */
    POST: { body: PasskeyConfirmation; answer: ConfirmedPasskey };
  };
  '/api/user/tokens': {
    /** List the live tokens, and those that ended in the last 30 days. */
    GET: { answer: Tokens };
    /** Create a token for a script, pipeline or device that should do less than its user. */
    POST: { body: CreateLimitedToken; answer: LimitedToken };
    /** Log out on all devices. */
    DELETE: { answer: LoggedOutEverywhere };
  };
  [path: `/api/user/tokens?ended_before=${string}`]: {
    /** List the live tokens, and those that ended in the last 30 days. */
    GET: { answer: Tokens };
  };
  '/api/user/tokens?keep=current': {
    /** Log out on all devices. */
    DELETE: { answer: LoggedOutEverywhere };
  };
}

export interface Address {
  email: string;
  verified: boolean;
  pending: string | null;
  deliverable: boolean;
}

export interface ConfirmedPasskey {
  id: number;
  recovery_codes?: string[];
}

export interface ConfirmedTotp {
  id: number;
  recovery_codes?: string[];
}

export interface CreateLimitedToken {
  name: string;
  scopes: readonly string[];
  expires_in?: number | undefined;
  audience?: string | undefined;
}

export interface CreateLongLivedToken {
  device: string;
}

export interface EmailChange {
  verification_token: string;
}

export interface EmailVerification {
  verification_token: string;
}

export interface EndedToken {
  id: number;
  type: 'refresh' | 'llt' | 'limited';
  name: string;
  created_at: string;
  created_by: number | null;
  scopes: string[] | null;
  audience: string | null;
  last_used_at: string | null;
  ended_at: string;
  reason: 'logout' | 'reuse' | 'password' | 'admin' | 'replaced' | 'expired' | 'unknown';
}

export interface Factor {
  id: number;
  type: 'totp' | 'passkey';
  name: string;
  created_at: string;
  last_used_at: string | null;
}

export interface FactorChange {
  current_password: string;
}

export interface LimitedToken {
  id: number;
  token: string;
  expires_at: string;
}

export interface LogIn {
  username: string;
  password: string;
  device?: string | undefined;
}

export interface LoggedOutEverywhere {
  msg: string;
  ended: number;
}

export interface LongLivedToken {
  id: number;
  longlived_token: string;
}

export interface Message {
  msg: string;
}

export interface NewRecoveryCodes {
  recovery_codes: string[];
}

export interface NewTotp {
  secret: string;
  otpauth_uri: string;
}

export interface OwnFactors {
  factors: Factor[];
  recovery_codes_left: number;
  accepted_passkeys?: {
    rpId: string;
    userId: string;
    allAcceptedCredentialIds: string[];
  };
}

export interface Pair {
  access_token: string;
  refresh_token: string;
  user: User;
}

export interface PasskeyConfirmation {
  name: string;
  passkey: PasskeyEnrolment;
}

export interface PasskeyCreationOptions {
  rp: {
    id: string;
    name: string;
  };
  user: {
    id: string;
    name: string;
    displayName: string;
  };
  challenge: string;
  pubKeyCredParams: {
    type: 'public-key';
    alg: number;
  }[];
  timeout: number;
  excludeCredentials: {
    type: 'public-key';
    id: string;
    transports: string[];
  }[];
  authenticatorSelection: {
    residentKey: 'required';
    requireResidentKey: true;
    userVerification: 'required';
  };
  attestation: 'none';
  extensions: {
    credProps: true;
  };
}

export interface PasskeyEnrolment {
  id: string;
  rawId: string;
  type: string;
  response: {
    clientDataJSON: string;
    attestationObject: string;
    transports?: readonly string[] | undefined;
  };
  clientExtensionResults?:
    | {
        credProps?:
          | {
              rk?: boolean | undefined;
            }
          | undefined;
      }
    | undefined;
}

export interface PasskeyLogin {
  id: string;
  rawId: string;
  type: string;
  response: {
    clientDataJSON: string;
    authenticatorData: string;
    signature: string;
    userHandle?: string | undefined;
  };
}

export interface PasskeyLoginOptions {
  challenge: string;
  timeout: number;
  rpId: string;
  userVerification: 'required';
}

export interface PasswordChange {
  current_password: string;
  new_password: string;
  end_long_lived?: boolean | undefined;
}

export interface PasswordChanged {
  msg: string;
  ended: number;
}

export interface PasswordReset {
  reset_token: string;
  password: string;
}

export interface PasswordResetRequest {
  username: string;
}

export interface Profile {
  id: number;
  username: string;
  name: string;
  created_at: string;
  roles: string[];
  locale: string | null;
  tokens: Token[];
}

export interface ProfileChange {
  name?: string | undefined;
  username?: string | undefined;
  email?: string | undefined;
  locale?: string | null | undefined;
  current_password?: string | undefined;
}

export interface SecondStep {
  login_token?: string | undefined;
  code?: string | undefined;
  recovery_code?: string | undefined;
  passkey?: PasskeyLogin | undefined;
  device?: string | undefined;
}

export interface SignUp {
  username: string;
  name: string;
  email: string;
  password: string;
  device?: string | undefined;
}

export interface Token {
  id: number;
  type: 'refresh' | 'llt' | 'limited';
  name: string;
  created_at: string;
  created_by: number | null;
  scopes: string[] | null;
  audience: string | null;
  last_used_at: string | null;
  expires_at: string | null;
  current: boolean;
}

export interface Tokens {
  tokens: Token[];
  ended: EndedToken[];
  ended_next: string | null;
}

export interface TotpConfirmation {
  code: string;
}

export interface User {
  id: number;
  username: string;
  name: string;
  created_at: string;
  roles: string[];
}
