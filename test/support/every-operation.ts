import { A_READER, attackedOperations, bodyOf, headersOf, type Attacked } from '../attack/operations.ts';
import { RIGHTS } from '../../src/domain/rights.ts';
import { audienceClients, exchanged } from './audiences.ts';
import type { TestApp } from './app.ts';
import { anAccount, bearer, claimsOf, createLimited, createLongLived, signUp } from './client.ts';
import { aRegisteredService, basic } from './registered-service.ts';
import { aFactor, firstStep } from './factors.ts';
import { setUpApp } from './own-factors.ts';
import { aBrowser, created, enrolmentOptions } from './passkeys.ts';
import { aPendingAddress, aReset, aVerification } from './resets.ts';
import { withFactorClaims } from './tokens.ts';

/** A request that succeeds while the stores answer. */
export interface ValidRequest {
  /** Of its operation. */
  name: string;
  /** The operation, the credentials and the kind of token, for messages. */
  what: string;
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string | null;
}

type Kind = 'access' | 'llt' | 'limited' | 'exchanged' | 'limitedForOrders';

/** Which kinds of token an operation is asked about, if not only about an access token. */
const KINDS: Record<string, readonly Kind[]> = {
  verify: ['access', 'llt'],
  verifyForAudience: ['exchanged'],
  verifyInScope: ['access', 'llt', 'limited'],
  verifyInScopeForAudience: ['exchanged', 'limitedForOrders'],
  introspect: ['access', 'llt', 'limited', 'exchanged'],
};

/**
 * Valid requests of every operation in the reference. Each has a user of its own, so that none depends on what another
 * did. A new operation joins by itself. The target has passkeys.
 */
export async function everyOperation(target: TestApp): Promise<ValidRequest[]> {
  const { orders } = await audienceClients(target.databaseUrl);
  const service = await aRegisteredService(target.databaseUrl, 'back office', RIGHTS);
  const requests: ValidRequest[] = [];
  for (const operation of attackedOperations()) {
    const { name, schemes } = operation;
    for (const scheme of schemes.length === 0 ? ['nothing'] : schemes) {
      // A service's token is good without any store (`if both stores are down`, in http/outages).
      if (scheme === 'serviceToken') continue;
      for (const kind of KINDS[name] ?? ['access']) {
        const user = await aUser(target, name);
        const token = user[kind];
        const credentials: Record<string, Record<string, string>> = {
          nothing: {},
          bearerAuth: bearer(token),
          bearerRefreshToken: bearer(user.refresh),
          serviceClient: basic(kind === 'exchanged' ? orders : service),
        };
        const body = operation.body && { ...operation.body, ...valuesFor(operation, user, token) };
        // A caller's credentials name it already.
        if (body) delete body.client_id;
        requests.push({
          name,
          what: `${name} by ${scheme}, ${kind}`,
          method: operation.method,
          path: pathOf(operation, user),
          headers: { ...headersOf(operation), ...credentials[scheme] },
          body: (body && bodyOf(operation, body)) ?? null,
        });
      }
    }
  }
  const ofExchanged = requests.find(({ name }) => name === 'verifyForAudience');
  if (!ofExchanged) throw new Error('the reference has no check for an audience');
  const path = '/api/auth/verify?audience=orders';
  return [...requests, { ...ofExchanged, what: 'verify by bearerAuth, exchanged', path }];
}

/** The operations of accounts that have a factor already. */
const WITH_FACTOR = ['completeLogin', 'replaceRecoveryCodes', 'removeFactor'];

/** @param operation may need a second factor, or an app that is set up. */
async function aUser(target: TestApp, operation: string) {
  const account = anAccount();
  const pair = await signUp(target, account);
  const { user, access_token: access, refresh_token } = pair;
  const { id: lltId, longlived_token: llt } = await createLongLived(target, access);
  const made = {
    id: user.id,
    account,
    access,
    refresh: refresh_token,
    session: Number(claimsOf(access).sid),
    llt,
    lltId,
    limited: (await createLimited(target, access)).token,
    limitedForOrders: (await createLimited(target, access, ['orders:read'], { audience: 'orders' })).token,
    exchanged: await exchanged(target, access),
    reset: await aReset(target.databaseUrl, user.id),
    verification:
      operation === 'changeEmail'
        ? await aPendingAddress(target.databaseUrl, user.id, `new.${account.email}`)
        : await aVerification(target.databaseUrl, user.id),
  };
  const app = operation === 'confirmTotp' ? await setUpApp(target, access) : null;
  const passkey =
    operation === 'confirmPasskey' ? created(aBrowser(), await enrolmentOptions(target, access)) : undefined;
  const without = { ...made, code: app?.code(), passkey, loginToken: '', factorId: undefined };
  if (!WITH_FACTOR.includes(operation)) return without;
  const { id: factorId, code } = await aFactor(target, pair);
  const loginToken = await firstStep(target, account.username);
  return { ...made, access: await withFactorClaims(target, access), code: code(), loginToken, factorId };
}

type User = Awaited<ReturnType<typeof aUser>>;

/** What must be this user's in a body, where the reference has an example. */
function valuesFor({ name, body }: Attacked, user: User, token: string): Record<string, unknown> {
  const { username, email, password } = name === 'logIn' ? user.account : anAccount();
  const values: Record<string, unknown> = {
    token,
    subject_token: token,
    reset_token: user.reset,
    verification_token: user.verification,
    ...(user.code !== undefined && { code: user.code }),
    ...(name === 'confirmPasskey' && 'passkey' in user && { passkey: user.passkey }),
    login_token: user.loginToken,
    current_password: user.account.password,
    username,
    email,
    // Each account's own.
    external_id: username,
    ...(name === 'logIn' && { password }),
  };
  return Object.fromEntries(Object.entries(values).filter(([property]) => property in (body ?? {})));
}

function pathOf({ name, template }: Attacked, user: User): string {
  const { id, session, lltId, factorId } = user;
  const own = template.startsWith('/api/users/') ? id : template.includes('/llt/') ? lltId : session;
  return (name === 'getEnforcement' ? `${template}?all=true&wait=1` : template)
    .replace('{id}', String(factorId ?? own))
    .replace('{reader}', A_READER)
    .replace('{audience}', 'orders')
    .replace('{scopes}', 'orders:read');
}
