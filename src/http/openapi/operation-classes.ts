/**
 * What an operation is to its callers. `npm run k8s` writes the error budget of each class into the alerts, and the budget
 * of every class but `account` and `documents` pages.
 */
const CLASSES = {
  'sign-in': ['signUp', 'logIn'],
  'second factor': ['completeLogin', 'getPasskeyOptions'],
  session: ['refresh'],
  verify: ['verify', 'verifyForAudience', 'verifyInScope', 'verifyInScopeForAudience'],
  service: ['getToken', 'introspect'],
  ending: [
    'logOut',
    'logOutById',
    'endToken',
    'logOutEverywhere',
    'deleteLongLivedToken',
    'revoke',
    'endUserTokens',
  ],
  account: [
    'requestPasswordReset',
    'resetPassword',
    'verifyEmail',
    'createLongLivedToken',
    'createLimitedToken',
    'listTokens',
    'getProfile',
    'changeProfile',
    'changePassword',
    'getEmail',
    'changeEmail',
    'requestEmailVerification',
    'listFactors',
    'replaceRecoveryCodes',
    'removeFactor',
    'setUpTotp',
    'confirmTotp',
    'setUpPasskey',
    'confirmPasskey',
    'createUser',
    'listUsers',
    'getUser',
    'changeUser',
    'deleteUser',
    'getUserEmail',
    'listUserTokens',
    'createPasswordReset',
    'inviteUser',
    'listUserFactors',
    'removeUserFactors',
    'takeMails',
    'settleMail',
    'reportUndeliverable',
    'reportUses',
    'confirmRevocations',
    'leaveRevocations',
    'listReaders',
    'getEnforcement',
  ],
  documents: ['getJwks', 'getMetadata', 'getOpenIdConfiguration'],
  // Its objective is LatchkeyFeedLags. It has no error budget, because a replica that drains, and one that is at a limit of
  // readers, answer 503 by contract, and readers come back every second.
  feed: ['revocations'],
} as const;

export type OperationClass = keyof typeof CLASSES;

/** A route that is in no class does not compile (operation.ts). */
export type OperationId = (typeof CLASSES)[OperationClass][number];

export const OPERATION_CLASSES: Readonly<Record<OperationClass, readonly OperationId[]>> = CLASSES;
