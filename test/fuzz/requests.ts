import { exchangeForm } from '../support/audiences.ts';
import { claimsOf, type Pair } from '../support/client.ts';
import type { Operation } from '../support/openapi.ts';
import type { Contract, Known } from './contract.ts';
import type { Dice } from './dice.ts';
import { basic } from '../support/registered-service.ts';
import type { Account, Session, World } from './world.ts';

/** A correct request, before mistakes are added. */
export interface Request {
  /** The change of the request, for the report. */
  name: string;
  method: string;
  target: string;
  headers: [name: string, value: string][];
  body: Buffer | null;
  /** A form, if the body is not JSON. */
  isForm: boolean;
  /** Sent instead of all of the above, over a separate connection. */
  raw?: Buffer;
  expects: 'success' | 'refusal' | 'anything';
  /** The secrets that no answer may repeat. */
  secrets: string[];
  /** The session whose tokens it uses. No other request uses it at the same time. */
  session: Session | null;
  /** Updates the world after a success. Returns the session's new state, or null if it ended. */
  succeed: (answer: unknown, sent: Buffer | null) => Session | null;
}

/** Paths that end other sessions of the account. */
const ENDS_SESSIONS = ['/api/user/tokens', '/api/user/password'];

/** A request to any operation of the document. It must succeed if its ids exist and `EFFECTS` has the operation. */
export function aRequest(dice: Dice, contract: Contract, world: World): { known: Known; request: Request } {
  const wanted = dice.pick(contract.operations);
  const takesToken = has(wanted.operation, 'bearer') || isFormOf(wanted.operation);
  const borrowed = takesToken ? world.borrow(dice.below(1000), ENDS_SESSIONS.includes(wanted.path)) : null;
  const signUp = contract.operations.find(({ operation }) => operation.operationId === 'signUp');
  const known = (takesToken && !borrowed) || world.accounts.length === 0 ? (signUp ?? wanted) : wanted;
  const session = known === wanted ? borrowed : null;
  if (borrowed && !session) world.giveBack(borrowed);
  const { method, path, operation } = known;
  const isForm = isFormOf(operation);
  const form = isForm && session ? formOf(dice, operation, session) : null;
  const values = isForm ? null : bodyOf(dice, operation, world, session);
  const credentials = credentialsFor(operation, session, world, dice);
  const { target, isKnown } = targetOf(dice, path, session);
  const text = form?.toString() ?? (values && JSON.stringify(values));
  const body = text === null ? null : Buffer.from(text);
  const type = isForm ? 'application/x-www-form-urlencoded' : 'application/json';
  return {
    known,
    request: {
      name: 'as documented',
      method,
      target,
      headers: [
        ...(credentials === null ? [] : [['Authorization', credentials] as [string, string]]),
        ...(body ? [['Content-Type', type] as [string, string]] : []),
        // OAuth clients accept errors as JSON only.
        ...(isForm && dice.chance(0.5) ? [['Accept', 'application/json'] as [string, string]] : []),
      ],
      body,
      isForm,
      expects: isKnown && operation.operationId in EFFECTS ? 'success' : 'anything',
      secrets: [
        values?.password,
        values?.new_password,
        values?.email,
        values?.reset_token,
        values?.verification_token,
        values?.login_token,
        values?.recovery_code,
        form?.get('token'),
        form?.get('subject_token'),
        world.client.secret,
      ].filter((value) => typeof value === 'string'),
      session,
      succeed: (answer, sent) => {
        // A mistake may have replaced it with another account's token.
        const values = operation.requestBody && !isForm ? (JSON.parse(String(sent)) as Body) : null;
        const token = isForm ? sameToken(new URLSearchParams(String(sent)).get('token') ?? '') : '';
        const effect = EFFECTS[operation.operationId];
        return effect ? effect({ answer, values, token, session, world, target }) : session;
      },
    },
  };
}

type Body = Partial<Account> & {
  new_password?: string;
  reset_token?: string;
  verification_token?: string;
  login_token?: string;
  code?: string;
  recovery_code?: string;
  device?: string;
  limit?: number;
  locale?: string | null;
  disabled?: boolean;
  email_verified?: boolean;
  invite?: boolean;
  tokens?: number[];
};

interface Effect {
  answer: unknown;
  values: Body | null;
  /** The token in a form. */
  token: string;
  session: Session | null;
  world: World;
  target: string;
}

/** The operations with a known correct request, and the effect of its success. */
const EFFECTS: Record<string, (effect: Effect) => Session | null> = {
  signUp({ answer, values, world }) {
    world.begin(values as Account, answer as Pair);
    return null;
  },
  logIn({ answer, values, world }) {
    const account = world.accounts.find(({ username }) => username === values?.username);
    if (account) world.begin(account, answer as Pair);
    return null;
  },
  refresh({ answer, session }) {
    const { access_token: access, refresh_token: refresh } = answer as Pair;
    return session && { ...session, access, refresh, stale: [...session.stale.slice(-3), session.refresh] };
  },
  logOut: () => null,
  logOutById: () => null,
  endToken: () => null,
  createLongLivedToken({ answer, session }) {
    const { id, longlived_token: token } = answer as { id: number; longlived_token: string };
    return session && { ...session, longLived: [...session.longLived, { id, token }] };
  },
  deleteLongLivedToken({ session, target }) {
    return (
      session && { ...session, longLived: session.longLived.filter(({ id }) => !target.endsWith(`/${id}`)) }
    );
  },
  logOutEverywhere: () => null,
  listTokens: ({ session }) => session,
  verify: ({ session }) => session,
  verifyInScope: ({ session }) => session,
  createLimitedToken: ({ session }) => session,
  getProfile: ({ session }) => session,
  changeProfile: ({ session }) => session,
  getEmail: ({ session }) => session,
  listFactors: ({ session }) => session,
  setUpTotp: ({ session }) => session,
  setUpPasskey: ({ session }) => session,
  getPasskeyOptions: ({ session }) => session,
  requestPasswordReset: ({ session }) => session,
  takeMails: ({ session }) => session,
  settleMail: ({ session }) => session,
  reportUndeliverable: ({ session }) => session,
  reportUses: ({ session }) => session,
  confirmRevocations: ({ session }) => session,
  leaveRevocations: ({ session }) => session,
  listReaders: ({ session }) => session,
  getEnforcement: ({ session }) => session,
  changePassword({ values, session }) {
    if (session) session.account.password = values?.new_password ?? '';
    return session;
  },
  introspect({ answer, token, session }) {
    const { active } = answer as { active: boolean };
    const isGood = [session?.access, ...(session?.longLived ?? []).map((llt) => llt.token)].includes(token);
    if (active !== isGood)
      throw new Error(`${token} is ${isGood ? '' : 'not '}good, and the answer ${active}`);
    return session;
  },
  revoke({ token, session }) {
    if (!session || [session.access, session.refresh, ...session.stale].includes(token)) return null;
    return { ...session, longLived: session.longLived.filter((llt) => llt.token !== token) };
  },
  exchange({ answer, session }) {
    const { aud, sid } = claimsOf((answer as Pair).access_token);
    if (aud !== 'orders' || sid !== session?.id)
      throw new Error(`a token of ${String(sid)} for ${String(aud)}`);
    return session;
  },
  revocations: ({ session }) => session,
  getJwks: ({ session }) => session,
  getMetadata: ({ session }) => session,
};

function has({ security }: Operation, scheme: string): boolean {
  return security.some((each) => Object.keys(each).some((name) => name.startsWith(scheme)));
}

/** Decoders ignore the spare bits of a signature's last character: texts that differ only there are one token. */
function sameToken(token: string): string {
  return token.replace(/[^.]*$/, (signature) => Buffer.from(signature, 'base64url').toString('base64url'));
}

function isFormOf({ requestBody }: Operation): boolean {
  return 'application/x-www-form-urlencoded' in (requestBody?.content ?? {});
}

function credentialsFor(
  operation: Operation,
  session: Session | null,
  { client }: World,
  dice: Dice,
): string | null {
  if (has(operation, 'serviceClient')) return basic(client).authorization;
  if (!session || operation.security.length === 0) return null;
  if (has(operation, 'bearerRefreshToken')) return `Bearer ${session.refresh}`;
  const [llt] = session.longLived;
  // An LLT has the rights of an access token, except over other tokens.
  const isEnough = ['verify', 'getProfile'].includes(operation.operationId);
  return `Bearer ${llt && isEnough && dice.chance(0.5) ? llt.token : session.access}`;
}

/** An exchange of the access token. Else any token of a session, or none. */
function formOf(
  dice: Dice,
  { operationId }: Operation,
  { access, refresh, stale, longLived }: Session,
): URLSearchParams {
  if (operationId === 'getToken') return new URLSearchParams(exchangeForm(access, 'orders'));
  const tokens = [access, access, refresh, ...stale, ...longLived.map(({ token }) => token), dice.word(40)];
  const hints = ['access_token', 'refresh_token', 'llt', dice.word(5)];
  return new URLSearchParams({
    token: dice.pick(tokens),
    ...(dice.chance(0.5) && { token_type_hint: dice.pick(hints) }),
  });
}

function targetOf(dice: Dice, path: string, session: Session | null): { target: string; isKnown: boolean } {
  if (path.endsWith('/{reader}'))
    return { target: path.replace('{reader}', dice.word(16 + dice.below(49))), isKnown: true };
  if (path.endsWith('/enforcement')) {
    const asked = dice.pick(['all=true', `token=${session?.id ?? 1}`, `user=${1 + dice.below(1e6)}`]);
    return { target: `${path}?${asked}&wait=0`, isKnown: true };
  }
  if (!path.includes('{')) return { target: path, isKnown: true };
  // A change by a service would end sessions that the fuzzer counts on.
  if (path.startsWith('/api/users/')) return { target: aboveAll(dice, path), isKnown: false };
  const id = path.includes('/llt/') ? session?.longLived.at(-1)?.id : session?.id;
  return { target: path.replace(/\{\w+\}/g, String(id ?? 1 + dice.below(1e6))), isKnown: id !== undefined };
}

/** With an id that no account has. */
function aboveAll(dice: Dice, path: string): string {
  return path.replace(/\{\w+\}/g, String(1e9 + dice.below(1e6)));
}

/** Valid values by property name. */
function bodyOf(dice: Dice, operation: Operation, world: World, session: Session | null): Body | null {
  if (operation.requestBody === undefined) return null;
  const username = `u${dice.word(12)}`;
  const account = {
    username,
    name: dice.pick(['Ada Lovelace', 'Zoë', '李四', 'O’Brien', '𝒜da', 'Ада']),
    email: `${username}@example.com`,
    password: dice.pick(['difference engine', 'пароль-пароль', '🔑🚪🏠🌳🐝🍯🥄🫖', `p ${dice.word(30)}`]),
  };
  const device = dice.chance(0.5)
    ? { device: dice.pick(['Kitchen tablet', 'a', '📱', 'x'.repeat(128)]) }
    : {};
  if (operation.operationId === 'signUp') return { ...account, ...device };
  if (operation.operationId === 'logIn') {
    const { username: name, password } = dice.pick(world.accounts);
    return { username: name, password, ...device };
  }
  if (operation.operationId === 'createLongLivedToken') return { device: 'Kitchen tablet' };
  if (operation.operationId === 'createLimitedToken')
    return { name: 'Orders report', scopes: ['orders:read', dice.word(12)] } as object;
  const locale = dice.pick(['de', 'pt-br', 'ZH-hant-tw', 'sr-Latn-RS-x-abcdefgh-abcdefgh-abcd']);
  if (operation.operationId === 'createUser') {
    const { password, ...invited } = account;
    const flags = { disabled: dice.chance(0.5), email_verified: dice.chance(0.5) };
    return dice.chance(0.5) ? { ...invited, password, locale, ...flags } : { ...invited, invite: true };
  }
  if (['changeProfile', 'changeUser'].includes(operation.operationId))
    return dice.chance(0.5) ? { name: account.name } : { locale: dice.pick([locale, null]) };
  if (operation.operationId === 'reportUndeliverable') return { email: account.email };
  if (operation.operationId === 'changePassword')
    return { current_password: session?.account.password, new_password: account.password } as Body;
  if (['setUpTotp', 'setUpPasskey', 'replaceRecoveryCodes', 'removeFactor'].includes(operation.operationId))
    return { current_password: session?.account.password } as Body;
  // It guesses none: an account with a factor would refuse what its other sessions ask.
  if (operation.operationId === 'confirmTotp') return { code: dice.pick(['123456', dice.word(6)]) };
  if (operation.operationId === 'confirmPasskey') {
    const response = { ...assertionOf(dice), attestationObject: aWord64(dice), transports: ['internal'] };
    return { name: 'Phone', passkey: { ...aCredential(dice), response } } as object;
  }
  if (operation.operationId === 'requestPasswordReset')
    return { username: dice.pick(world.accounts).username };
  if (['verifyEmail', 'changeEmail'].includes(operation.operationId))
    return { verification_token: `lkv_${dice.word(43)}` };
  if (operation.operationId === 'reportUses')
    return {
      tokens: [session?.id ?? 1, ...(session?.longLived ?? []).map(({ id }) => id), 1 + dice.below(1e6)],
    };
  if (operation.operationId === 'confirmRevocations')
    return {
      position: `${dice.word(36)}-905.${dice.below(1e6)}`,
      ...(dice.chance(0.5) && { instance: dice.word(1 + dice.below(128)), keys: [dice.word(8)] }),
      ...(dice.chance(0.5) && { max_staleness: dice.below(1000), when_stale: 'refuse' }),
    } as object;
  if (operation.operationId === 'takeMails') return { limit: 1 + dice.below(100) };
  if (operation.operationId === 'completeLogin') {
    const passkey = { ...aCredential(dice), response: assertionOf(dice) };
    if (dice.chance(0.3)) return { passkey, ...device } as object;
    const proof = dice.pick([{ code: '123456' }, { recovery_code: dice.word(24) }]);
    return { login_token: `lkl_${dice.word(86)}`, ...proof, ...device };
  }
  if (operation.operationId === 'resetPassword')
    return { reset_token: `lkr_${dice.word(43)}`, password: account.password };
  return { ...account, ...device };
}

/** Of the right form, and never good: nobody guesses a signature. */
function aCredential(dice: Dice) {
  const id = aWord64(dice);
  return { id, rawId: id, type: 'public-key' };
}

function assertionOf(dice: Dice) {
  const clientData = {
    type: dice.pick(['webauthn.get', 'webauthn.create']),
    challenge: aWord64(dice),
    origin: dice.pick(['https://app.example.com', 'https://evil.example']),
  };
  return {
    clientDataJSON: Buffer.from(JSON.stringify(clientData)).toString('base64url'),
    authenticatorData: aWord64(dice),
    signature: aWord64(dice),
    userHandle: aWord64(dice),
  };
}

/** Bytes in base64url. */
function aWord64(dice: Dice): string {
  return Buffer.from(dice.word(1 + dice.below(80))).toString('base64url');
}
