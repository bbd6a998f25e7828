import type { Verifier } from '../create-verifier.ts';
import { checkDemand, refuseUnproven, type Demand } from '../demand.ts';
import { CLOCK_TOLERANCE } from '../options.ts';
import { readScope, refuseOutOfScope, type Scope } from '../scope.ts';
import {
  fits,
  readLimitedToken,
  readToken,
  USERS_TYPES,
  type AnyToken,
  type TokenType,
  type UsersType,
  type VerifiedToken,
} from '../verified-token.ts';
import { invalid, wrongType } from '../verifier-error.ts';
import {
  checkTestToken,
  claimsOf,
  kindOf,
  TYP_OF,
  type TestServiceToken,
  type TestToken,
} from './test-token.ts';

/**
 * What middleware, plugin and `verifyRequest` take, without a Latchkey: these tokens are good, by the rules
 * of a real verifier for scope, acr and maxAge, and any other text is `invalid_token`.
 * @param tokens by the text that stands for the token
 * @param options.accept as of `createVerifier`
 * @throws TypeError for what no token can hold, and for another option
 */
export function fakeVerifier<Accepted extends TokenType = UsersType>(
  tokens: Readonly<Record<string, TestToken | TestServiceToken>>,
  options: { accept?: readonly Accepted[] } = {},
): Pick<Verifier<Accepted>, 'accept' | 'verify'> {
  const { accept = USERS_TYPES as readonly TokenType[] as readonly Accepted[], ...others } = options;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw new TypeError(`${unknown} is no option: use accept`);
  const good = new Map(Object.entries(tokens).map(([text, token], i) => [text, verifiedOf(token, i + 1)]));
  const isAccepted = (type: string) => (accept as readonly string[]).includes(type);

  function decide(text: string, options: Demand & { scope?: Scope | undefined }): AnyToken {
    checkDemand(options);
    const { scope, acr, maxAge } = options;
    const needed = scope === undefined ? null : readScope(scope);
    const token = good.get(text);
    if (!token) throw invalid('inactive', 'the test has named no such token');
    const { tokenType } = token;
    if (tokenType === 'limited') {
      if (needed === null && !isAccepted('access')) throw wrongType(accept, TYP_OF.limited);
    } else if (!isAccepted(tokenType))
      throw wrongType(accept, fits(TYP_OF[tokenType], accept) ? tokenType : TYP_OF[tokenType]);
    refuseOutOfScope(token, needed);
    refuseUnproven(token, { acr, maxAge }, Math.floor(Date.now() / 1000) - CLOCK_TOLERANCE);
    return token;
  }

  return {
    accept,
    verify: (text: string, options: Demand & { scope?: Scope | undefined } = {}) =>
      new Promise<VerifiedToken<Accepted>>((resolve) => {
        resolve(decide(text, options) as VerifiedToken<Accepted>);
      }),
  };
}

/** Read from the claims of a token of Latchkey, so that it has what a real verifier returns. */
function verifiedOf(token: TestToken | TestServiceToken, id: number): AnyToken {
  checkTestToken(token);
  const audience = 'latchkey';
  const { roles = [], emailVerified = false } = token as TestToken;
  const issue = { issuer: 'https://latchkey.test', ownAudience: audience, audience };
  const now = Math.floor(Date.now() / 1000);
  const claims = claimsOf(token, { roles, emailVerified }, { ...issue, id, now });
  const kind = kindOf(token);
  const payload = structuredClone(claims);
  const verified = kind === 'limited' ? readLimitedToken(payload) : readToken(payload, kind);
  if (!verified) throw new TypeError(`Latchkey issues no such token of type ${kind}`);
  if (verified.tokenType === 'access' || verified.tokenType === 'service') return verified;
  // These tokens hold neither, so a real verifier has them from Latchkey's answer.
  return { ...verified, roles, emailVerified };
}
