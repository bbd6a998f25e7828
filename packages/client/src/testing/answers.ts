import type { FieldError } from '../latchkey-error.ts';
import type { Operations } from '../operations.ts';
import { ROUTES, type PROBLEMS } from './api.ts';
import { time, type Account, type Holding, type makeState, type Presented } from './state.ts';

type Routes = typeof ROUTES;
export type OperationId = keyof Routes;
export type Code = keyof typeof PROBLEMS;

/** What a request asks for. */
export interface Asked {
  method: string;
  path: string;
  query: string;
  token: string | null;
  body: string;
}

/** What a handler gets, checked. */
interface Request<Body> {
  fields: Body;
  query: Readonly<Record<string, string>>;
  /** Of the path, or else of the query; NaN if it is in neither. */
  id: number;
  caller: Presented;
}

type KeyOf<Path> = Path extends `${infer Before}{id}${infer After}` ? `${Before}${number}${After}` : Path;

/** The types that `client.request` has for it. */
type OperationOf<Route extends { path: string; method: string }> =
  KeyOf<Route['path']> extends infer Key extends keyof Operations
    ? Route['method'] extends infer Method extends keyof Operations[Key]
      ? Operations[Key][Method]
      : never
    : never;

/** A handler for each operation, so that a new operation without one does not compile. */
type Handlers = {
  [Id in OperationId]: (
    request: Request<OperationOf<Routes[Id]> extends { body: infer Body } ? Body : object>,
  ) => OperationOf<Routes[Id]> extends { answer: infer Answer } ? Answer : never;
};

interface Field {
  types: readonly string[];
  isRequired: boolean;
  /** The least number, or of how many characters or items. */
  min?: number;
  max?: number;
  /** Of a text, or of each item. */
  pattern?: string;
}

interface Route {
  method: string;
  path: string;
  token: 'bearerAuth' | 'bearerRefreshToken' | null;
  query: readonly string[];
  fields?: Readonly<Record<string, Field>>;
  codes: readonly Code[];
}

/** What is answered in place of 200. */
export class Refusal extends Error {
  readonly code: Code;
  readonly more: object;

  constructor(code: Code, more: object = {}) {
    super(code);
    this.code = code;
    this.more = more;
  }
}

const DAY = 86_400_000;
/** Seconds: LIMITED_TOKEN_MAX_AGE. */
const LIMITED_MAX_AGE = 31_536_000;
/**
 * Operations that also take an access token of a session that has ended, so that a sign-out does not fail.
 */
const ENDING: readonly OperationId[] = ['logOut', 'logOutById', 'logOutEverywhere'];

/** Answers the operations as a Latchkey with default settings. */
export function makeAnswers(state: ReturnType<typeof makeState>) {
  const refusals = new Map<OperationId, Code[]>();
  const logins = new Map<string, Account>();

  function takeRefusal(id: OperationId, isWanted: (code: Code) => boolean): void {
    const [code] = refusals.get(id) ?? [];
    if (code === undefined || !isWanted(code)) return;
    refusals.get(id)?.shift();
    throw new Refusal(code);
  }

  function callerOf(id: OperationId, { token: kind }: Route, token: string | null): Presented {
    if (token === null) throw new Refusal('token_missing');
    const found = state.presented(token, kind === 'bearerAuth' ? 'access' : 'refresh');
    if (!found) throw new Refusal('invalid_token');
    if (kind === 'bearerAuth' && !ENDING.includes(id) && !state.accepts(found))
      throw new Refusal('invalid_token');
    return found;
  }

  function find(name: string): Account | undefined {
    const wanted = name.trim().toLowerCase();
    return state.accounts.find(({ user, email }) => [user.username, email].includes(wanted));
  }

  /** @throws Refusal that names all that another account has */
  function refuseTaken(username: string | undefined, email: string | undefined, own?: Account): void {
    const taken = [['username', username] as const, ['email', email] as const].filter(
      ([, name]) => name !== undefined && ![undefined, own].includes(find(name)),
    );
    const [first] = taken;
    if (!first) return;
    const errors = taken.map(([field]) => fieldError(`/${field}`, 'taken', 'is taken'));
    throw new Refusal(`${first[0]}_taken`, { errors });
  }

  function confirm({ account }: Holding, password: string): void {
    if (account.password !== password) throw new Refusal('invalid_credentials');
  }

  function endOne({ holding: own, generation }: Presented, id: number, isWanted = (_: Holding) => true) {
    const holding = Number.isNaN(id) ? own : state.holding(id);
    if (holding !== own && !state.accepts({ holding: own, generation })) throw new Refusal('invalid_token');
    if (holding?.account !== own.account || !isWanted(holding)) throw new Refusal('token_unknown');
    state.end(holding, 'logout');
  }

  /** @returns how many */
  function endAll(
    account: Account,
    reason: 'logout' | 'password',
    stays: (holding: Holding) => boolean,
  ): number {
    const ending = state.liveOf(account).filter((holding) => !stays(holding));
    for (const holding of ending) state.end(holding, reason);
    return ending.length;
  }

  function tokensOf(current: Holding) {
    return state.liveOf(current.account).map((holding) => ({
      ...holding.shown,
      last_used_at: lastUsed(holding),
      current: holding === current,
    }));
  }

  function lastUsed({ shown, issuedAt }: Holding): string | null {
    return shown.type === 'refresh' ? time(issuedAt) : null;
  }

  const handlers: Handlers = {
    signUp({ fields: { username, name, email, password, device } }) {
      const names = { username: lower(username), name: trimmed(name), email: lower(email) };
      refuseTaken(names.username, names.email);
      return state.open(state.addAccount({ ...names, password, roles: [] }), device);
    },
    logIn({ fields: { username, password, device } }) {
      const account = find(username);
      if (account?.password !== password) throw new Refusal('invalid_credentials');
      try {
        takeRefusal('logIn', () => true);
      } catch {
        const token = `lkl_${Math.random().toString(36).slice(2)}`;
        logins.set(token, account);
        const expires_at = time(Date.now() + 300_000);
        throw new Refusal('second_factor_required', {
          login_token: token,
          methods: ['totp', 'recovery_code'],
          expires_at,
        });
      }
      return state.open(account, device);
    },
    completeLogin({ fields }) {
      const { login_token, code, recovery_code, passkey, device } = fields;
      if (passkey) {
        const others = (['login_token', 'code', 'recovery_code'] as const).filter((name) => name in fields);
        const [other] = others;
        if (other) throw invalid([fieldError(`/${other}`, 'not_allowed', 'must not be there with passkey')]);
        return refused('factors_disabled');
      }
      if (login_token === undefined)
        throw invalid([fieldError('/login_token', 'required', 'is required, or passkey')]);
      if ((code === undefined) === (recovery_code === undefined))
        throw invalid([fieldError('/code', 'required', 'is required, or recovery_code')]);
      const account = logins.get(login_token);
      if (!account) throw new Refusal('invalid_login_token');
      logins.delete(login_token);
      return state.open(account, device);
    },
    refresh({ caller }) {
      const next = state.rotate(caller);
      if (typeof next === 'string') throw new Refusal(next);
      return next;
    },
    logOut({ caller, id }) {
      endOne(caller, id);
      return { msg: 'logged out' };
    },
    logOutById({ caller, id }) {
      endOne(caller, id);
      return { msg: 'logged out' };
    },
    endToken({ caller, id }) {
      endOne(caller, id);
      return { msg: 'logged out' };
    },
    deleteLongLivedToken({ caller, id }) {
      endOne(caller, id, ({ shown }) => shown.type !== 'refresh');
      return { msg: 'deleted' };
    },
    logOutEverywhere({ caller: { holding, generation }, query }) {
      const isOver = holding.ended && state.liveOf(holding.account).length === 0;
      if (!state.accepts({ holding, generation }) && !(isOver && query.keep === undefined))
        throw new Refusal('invalid_token');
      const ended = endAll(holding.account, 'logout', (each) => query.keep === 'current' && each === holding);
      return { msg: 'logged out everywhere', ended };
    },
    getProfile({ caller: { holding } }) {
      const { user, locale } = holding.account;
      return { ...user, locale, tokens: tokensOf(holding) };
    },
    changeProfile({ caller: { holding }, fields }) {
      const { account } = holding;
      const { username, email, name, locale, current_password } = fields;
      if (Object.keys(fields).length === 0) throw invalid([fieldError('', 'required', 'needs a field')]);
      if (username !== undefined || email !== undefined) {
        if (current_password === undefined)
          throw invalid([fieldError('/current_password', 'required', 'is required')]);
        confirm(holding, current_password);
        refuseTaken(username, email, account);
      }
      if (username !== undefined) account.user.username = lower(username);
      if (email !== undefined) account.email = lower(email);
      if (name !== undefined) account.user.name = trimmed(name);
      if (locale !== undefined) account.locale = locale;
      return { ...account.user };
    },
    changePassword({ caller: { holding }, fields }) {
      const { current_password, new_password, end_long_lived } = fields;
      confirm(holding, current_password);
      holding.account.password = new_password;
      const stays = (each: Holding) => each === holding || (each.shown.type !== 'refresh' && !end_long_lived);
      return { msg: 'password changed', ended: endAll(holding.account, 'password', stays) };
    },
    listTokens({ caller: { holding } }) {
      const ended = state.endedOf(holding.account).map((each) => {
        const { id, type, name, created_at, created_by, scopes, audience } = each.shown;
        const shown = { id, type, name, created_at, created_by, scopes, audience };
        return { ...shown, last_used_at: lastUsed(each), ...each.ended };
      });
      return { tokens: tokensOf(holding), ended, ended_next: null };
    },
    createLongLivedToken({ caller: { holding }, fields: { device } }) {
      const made = state.add(holding.account, {
        type: 'llt',
        name: trimmed(device),
        created_by: holding.shown.id,
      });
      return { id: made.shown.id, longlived_token: state.text(made, 'llt+jwt') };
    },
    createLimitedToken({ caller: { holding }, fields }) {
      const { name, scopes, expires_in = (90 * DAY) / 1000, audience } = fields;
      if (expires_in > LIMITED_MAX_AGE)
        throw invalid([fieldError('/expires_in', 'out_of_range', `must be at most ${LIMITED_MAX_AGE}`)]);
      if (audience !== undefined) throw new Refusal('invalid_target');
      const expires_at = time(Date.now() + expires_in * 1000);
      const made = state.add(holding.account, {
        type: 'limited',
        name: trimmed(name),
        created_by: holding.shown.id,
        scopes: [...scopes],
        audience: 'latchkey',
        expires_at,
      });
      return { id: made.shown.id, token: state.text(made, 'limited+jwt'), expires_at };
    },
    getEmail: ({ caller: { holding } }) => ({
      email: holding.account.email,
      verified: false,
      pending: null,
      deliverable: true,
    }),
    requestEmailVerification: () => ({ msg: 'a mail is on its way' }),
    requestPasswordReset: () => ({ msg: 'if there is such an account, a mail is on its way' }),
    // No mail is ever sent, and FACTOR_KEYS is not set, so no second factor can be added.
    verifyEmail: () => refused('invalid_verification_token'),
    changeEmail: () => refused('invalid_verification_token'),
    resetPassword: () => refused('invalid_reset_token'),
    listFactors: () => ({ factors: [], recovery_codes_left: 0 }),
    setUpTotp({ caller: { holding }, fields: { current_password } }) {
      confirm(holding, current_password);
      return refused('factors_disabled');
    },
    confirmTotp: () => refused('invalid_second_factor'),
    // WEBAUTHN_RP_ID is not set either.
    getPasskeyOptions: () => refused('factors_disabled'),
    setUpPasskey: () => refused('factors_disabled'),
    confirmPasskey: () => refused('factors_disabled'),
    removeFactor({ caller: { holding }, fields: { current_password } }) {
      confirm(holding, current_password);
      return refused('factor_unknown');
    },
    replaceRecoveryCodes({ caller: { holding }, fields: { current_password } }) {
      confirm(holding, current_password);
      return refused('factor_unknown');
    },
  };

  return {
    /** @throws Refusal; TypeError if it is no operation */
    answer(asked: Asked): object {
      const { id, route, inPath } = matching(asked);
      takeRefusal(id, (code) => code !== 'second_factor_required');
      const caller = route.token && callerOf(id, route, asked.token);
      const query = readQuery(route, asked.query);
      const fields = readBody(route.fields, asked.body);
      const pathId = idOf('params/id', inPath);
      const queryId = idOf('query/id', query.id);
      const handle = handlers[id] as (request: Request<object>) => object;
      const request = { fields, query, id: pathId ?? queryId ?? NaN, caller };
      // An operation that takes no token does not look at its caller.
      return handle(request as Request<object>);
    },
    /** @throws TypeError if the operation never answers this code */
    refuse(id: OperationId, code: Code): void {
      const route = (ROUTES as Partial<Record<string, Route>>)[id];
      if (!route?.codes.includes(code)) throw new TypeError(`${id} never answers ${code}`);
      refusals.set(id, [...(refusals.get(id) ?? []), code]);
    },
  };
}

function matching({ method, path }: Asked): { id: OperationId; route: Route; inPath: string | undefined } {
  const found = Object.entries<Route>(ROUTES)
    .map(([id, route]) => ({
      id: id as OperationId,
      route,
      match: new RegExp(`^${route.path.replace('{id}', '([^/]+)')}$`).exec(path),
    }))
    .filter(({ route, match }) => route.method === method && match)
    // A path without an id comes before one with it.
    .sort((one, other) => (one.match?.length ?? 0) - (other.match?.length ?? 0))[0];
  // Latchkey answers 404 without CORS headers, which to a page is no answer.
  if (!found) throw new TypeError(`the test server has no operation ${method} ${path}`);
  return { ...found, inPath: found.match?.[1] };
}

function readQuery({ query: names }: Route, text: string): Record<string, string> {
  const query = Object.fromEntries(
    text
      .split('&')
      .filter((part) => part !== '')
      .map((part) => part.split('=').map(decodeURIComponent) as [string, string]),
  );
  const unknown = Object.keys(query).filter((name) => !names.includes(name));
  if (unknown.length > 0)
    throw invalid(unknown.map((name) => fieldError(`query/${name}`, 'unknown', 'is unknown')));
  if (![undefined, 'current'].includes(query.keep))
    throw invalid([fieldError('query/keep', 'not_allowed', 'must be current')]);
  return query;
}

function idOf(path: string, text: string | undefined): number | undefined {
  if (text === undefined || /^[1-9]\d{0,15}$/.test(text))
    return text === undefined ? undefined : Number(text);
  throw invalid([fieldError(path, 'format', 'is not an id')]);
}

/** @throws Refusal for a body that is not as documented */
function readBody(fields: Route['fields'], text: string): object {
  if (!fields && text === '') return {};
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw new Refusal('malformed_json');
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw invalid([fieldError('', 'type', 'must be an object')]);
  if (!fields && Object.keys(body).length > 0)
    throw invalid([fieldError('', 'not_allowed', 'must be empty')]);
  const given = body as Readonly<Record<string, unknown>>;
  const known = Object.entries(fields ?? {});
  const errorsBy = (judge: (path: string, field: Field, value: unknown) => FieldError[]) =>
    known.flatMap(([name, field]) => judge(`/${name}`, field, given[name]));
  const errors = [
    ...Object.keys(given)
      .filter((name) => fields && !(name in fields))
      .map((name) => fieldError(`/${name}`, 'unknown', 'is unknown')),
    ...errorsBy(formErrors),
  ];
  if (errors.length > 0) throw invalid(errors);
  // As in Latchkey, values are looked at once all of them have their types.
  const wrong = errorsBy(valueErrors);
  if (wrong.length > 0) throw invalid(wrong);
  return given;
}

function formErrors(path: string, { types, isRequired }: Field, value: unknown): FieldError[] {
  if (value === undefined) return isRequired ? [fieldError(path, 'required', 'is required')] : [];
  const type = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  if (!types.includes(Number.isInteger(value) ? 'integer' : type))
    return [fieldError(path, 'type', `must be: ${types.join(' or ')}`)];
  if (!Array.isArray(value)) return [];
  return value.flatMap((item, i) =>
    typeof item === 'string' ? [] : [fieldError(`${path}/${i}`, 'type', 'must be: string')],
  );
}

function valueErrors(path: string, field: Field, value: unknown): FieldError[] {
  const { min = -Infinity } = field;
  if (typeof value === 'string') return textErrors(path, field, value);
  if (Array.isArray(value)) return listErrors(path, field, value as string[]);
  return typeof value === 'number' && value < min
    ? [fieldError(path, 'out_of_range', `must be at least ${min}`)]
    : [];
}

function textErrors(path: string, { min, max, pattern }: Field, value: string): FieldError[] {
  if (path === '/locale') return isLanguageTag(value) ? [] : [fieldError(path, 'format', 'is no BCP 47 tag')];
  const { length } = Array.from(value);
  // A login may try any text, also one of white space.
  const isTry = min === 1 && (max ?? 0) > 128;
  if (min !== undefined && (value === '' || (value.trim() === '' && !isTry)))
    return [fieldError(path, 'blank', 'must not be blank')];
  if (min !== undefined && length < min)
    return [fieldError(path, 'too_short', `must have at least ${min} characters`, { min })];
  if (max !== undefined && length > max)
    return [fieldError(path, 'too_long', `must have at most ${max} characters`, { max })];
  if (pattern === undefined || new RegExp(pattern).test(value.trim())) return [];
  const code = path === '/email' && !/\s/.test(value.trim()) ? 'format' : 'not_allowed_character';
  return [fieldError(path, code, `must match ${pattern}`)];
}

function listErrors(path: string, { min = 0, max = Infinity, pattern }: Field, value: string[]) {
  if (value.length < min) return [fieldError(path, 'required', `must hold at least ${min}`)];
  if (value.length > max) return [fieldError(path, 'too_many', `must hold at most ${max}`, { max })];
  const form = new RegExp(pattern ?? '');
  if (!value.every((item) => form.test(item)))
    return [fieldError(path, 'format', `must hold texts that match ${pattern}`)];
  return new Set(value).size < value.length ? [fieldError(path, 'repeated', 'must hold each once')] : [];
}

function isLanguageTag(text: string): boolean {
  try {
    return Intl.getCanonicalLocales(text).length > 0;
  } catch {
    return false;
  }
}

function fieldError(path: string, code: string, message: string, params?: FieldError['params']): FieldError {
  return { path, code, ...(params && { params }), message };
}

function invalid(errors: FieldError[]): Refusal {
  return new Refusal('validation_failed', { errors });
}

function refused(code: Code): never {
  throw new Refusal(code);
}

function trimmed(text: string): string {
  return text.trim();
}

/** Usernames and addresses as Latchkey stores them. */
export function lower(text: string): string {
  return text.trim().toLowerCase();
}
