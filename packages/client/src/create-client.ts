import { makeAuthorized } from './authorized.ts';
import { isRefusal, type LatchkeyError } from './latchkey-error.ts';
import type { Operations, PasskeyLogin } from './operations.ts';
import { allowedUrl, originOf, pageOrigin } from './origins.ts';
import type { Pair } from './pair.ts';
import { makeRenewal, pairOf } from './renewal.ts';
import { makeSend } from './requests.ts';
import { insist, makePace } from './retries.ts';
import { makeServer, parseAnswer } from './server.ts';
import { inMemory, makeSessionStore, sessionOf, type Session, type TokenStorage } from './session-store.ts';

export interface ClientOptions {
  /** Latchkey’s, with a path if it has one. Default: the page’s origin; outside of a page it must be given. */
  url?: string | undefined;
  /** The origins, besides that of `url`, that may get the access token. */
  apis?: readonly string[] | undefined;
  /**
   * The storage or a function that returns it. Pass `() => localStorage`, because a browser that blocks
   * storage throws at the name: the client then keeps the session in memory. Default: memory, so that a
   * reload signs out.
   */
  storage?: TokenStorage | null | (() => TokenStorage | null | undefined) | undefined;
  fetch?: typeof globalThis.fetch | undefined;
  /**
   * Called with `storage_failed` when the client goes on in memory, because no call rejects then. Default: a
   * warning on the console.
   */
  onError?: ((error: LatchkeyError) => void) | undefined;
}

export interface Login {
  /** Or the e-mail address. */
  username: string;
  password: string;
  /** The name of this device in the list of tokens. */
  device?: string;
}

export interface Signup extends Login {
  name: string;
  email: string;
}

/** The second step of a login that was refused with `second_factor_required`, or a login by passkey. */
export type SecondStep = { device?: string } & (
  | ({
      /** Of `error.problem`. It may be sent again until it expires. */
      login_token: string;
    } & ({ code: string } | { recovery_code: string }))
  | { passkey: PasskeyAnswer }
);

/** `AuthenticationResponseJSON` of WebAuthn. `@latchkey/client/passkey` makes it. */
export type PasskeyAnswer = PasskeyLogin & { clientExtensionResults: object };

/** No member needs `this`. Each rejects with `LatchkeyError`; `fetch` also with what `fetch` throws, or its signal’s reason. */
export interface Client {
  /** Undefined until storage was read, null while signed out. The same object until it changes. */
  readonly session: Session | null | undefined;
  /** Also tells of other tabs. @returns what ends it */
  onChange: (listener: () => void) => () => void;
  /** One request: after `no_answer` the account may exist. */
  signup: (body: Signup) => Promise<Session>;
  /**
   * One request. Tries once to end the session that it replaces. If the account has a second factor, it rejects with
   * `second_factor_required`, and changes nothing: `error.problem` has `login_token`, `methods` and `expires_at`.
   */
  login: (body: Login) => Promise<Session>;
  /** As `login`. For a passkey, `@latchkey/client/passkey` calls it. */
  completeLogin: (body: SecondStep) => Promise<Session>;
  /** Signs out here, then tells Latchkey. Rejects if it could not: the next call tells it again. */
  logout: (options?: { everywhere?: boolean }) => Promise<void>;
  /** A good access token. */
  accessToken: () => Promise<string>;
  /** For new roles, or the user’s new name. */
  refresh: () => Promise<Session>;
  /** With the access token; once more with another one after a 401 that refuses the token. */
  fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
  /** Any operation of Latchkey, with the access token if signed in. @returns the parsed answer */
  request: <Method extends string, Path extends string>(
    method: Method,
    path: Path,
    ...body: BodyOf<OperationAt<Method, Path>>
  ) => Promise<AnswerOf<OperationAt<Method, Path>>>;
}

/** One of `Operations`; `unknown` where they have none. */
type OperationAt<Method, Path> = Path extends keyof Operations
  ? Method extends keyof Operations[Path]
    ? Operations[Path][Method]
    : unknown
  : unknown;
type BodyOf<Operation> = Operation extends { body: infer Body }
  ? [body: Body]
  : Operation extends { answer: unknown }
    ? [body?: undefined]
    : [body?: unknown];
type AnswerOf<Operation> = Operation extends { answer: infer Answer } ? Answer : unknown;

const LOGIN = '/api/auth';
const SIGNUP = '/api/auth/signup';

/** @throws TypeError for an unknown option, a URL that is not http or https, or no `url` outside of a page */
export function createClient(options: ClientOptions = {}): Client {
  const { url: given = pageOrigin(), apis = [], storage = inMemory(), fetch, onError, ...unknown } = options;
  // A misspelt `storage` would sign users out at each reload.
  for (const name in unknown) throw new TypeError(`createClient has no option ${name}`);
  const request = makeSend((...request) => (fetch ?? globalThis.fetch)(...request));
  const url = given.replace(/\/+$/, '');
  const origins = [url, ...apis].map(originOf);
  if (origins.includes(null) || /[?#]/.test(url))
    throw new TypeError('url and apis must be http or https URLs');
  // React Native’s SecureStore takes only such characters.
  const key = `latchkey.${url.replace(/[^a-z\d.-]/gi, (sign) => `_${sign.charCodeAt(0).toString(16)}`)}`;
  const store = makeSessionStore(storage, key, onError);
  const server = makeServer(url, request);
  const renewal = makeRenewal(store, server);
  const authorized = makeAuthorized(store, renewal);

  const look = () => {
    store.read().catch(() => null);
  };
  look();

  /** What ends the sessions whose logout Latchkey was not told. */
  const untold = new Set<() => Promise<void>>();

  function shownOf(pair: Pair): Session {
    const shown = store.session();
    return shown?.id === pair.session ? shown : sessionOf(pair);
  }

  async function open(path: string, body: object): Promise<Session> {
    // Before the request, so that a storage that throws opens no session.
    const held = await store.read();
    // A login with the last refresh token comes from a device that the account knows.
    const token = path === SIGNUP ? undefined : held?.refresh;
    const pair = pairOf(await server.send('POST', path, { body, token }));
    const replaced: Pair[] = [];
    try {
      await store.change((now) => {
        if (now) replaced.push(now);
        return pair;
      });
    } catch (error) {
      void ending(pair)().catch(() => null);
      throw error;
    }
    for (const each of replaced) void ending(each)().catch(() => null);
    return shownOf(pair);
  }

  /** @returns a try to end a session that storage no longer holds. Later tries know what earlier ones have refreshed. */
  function ending(pair: Pair, path = LOGIN): () => Promise<void> {
    let newest = pair;
    const tell = () => server.send('DELETE', path, { token: newest.access, keepalive: true });
    return async () => {
      try {
        await tell();
      } catch (error) {
        if (!isRefusal(error)) throw error;
        // Its access token has expired, or a refresh that was not stored has superseded it.
        newest = await renewal.newer(newest);
        await tell();
      }
    };
  }

  return {
    get session() {
      return store.session();
    },
    onChange(listener) {
      const own = () => {
        listener();
      };
      if (store.listen(own)) watchPage('addEventListener', look);
      return () => {
        if (store.unlisten(own)) watchPage('removeEventListener', look);
      };
    },
    signup: (body) => open(SIGNUP, body),
    login: (body) => open(LOGIN, body),
    completeLogin: (body) => open('/api/auth/second-factor', body),
    async logout({ everywhere } = {}) {
      const removal = store.change((held) => {
        if (held) untold.add(ending(held, everywhere ? '/api/user/tokens' : LOGIN));
        return null;
      });
      await removal.catch(() => null);
      // The newest first, so that what an older one meets does not keep it from being sent.
      for (const end of [...untold].reverse()) {
        const pace = makePace();
        await insist(pace, () => pace.run(end)).catch((error: unknown) => {
          // The session had ended before.
          if (everywhere || !isRefusal(error)) throw error;
        });
        untold.delete(end);
        everywhere = false;
      }
      // If the storage has thrown, the session has ended all the same.
      await removal;
    },
    accessToken: async () => (await renewal.fresh()).access,
    refresh: async () => shownOf(await renewal.another(await renewal.present())),
    async fetch(input, init = {}) {
      const asked = Object(input) as Partial<Request>;
      const url = allowedUrl(asked.url ?? (input as string | URL).toString(), origins);
      const { headers = asked.headers ?? {}, signal = asked.signal } = init;
      return authorized({
        send: (token) =>
          request(asked.url ? (input as Request) : url, { ...init, headers: withToken(headers, token) }),
        responseOf: (response) => response,
        signal,
        isOnce: isStream(init.body),
      });
    },
    async request(method: string, path: string, body?: unknown) {
      allowedUrl(url + path, origins);
      const send = (token?: string) => server.exchange(method, path, { token, body });
      const answer = (await store.read())
        ? await authorized({ send, responseOf: ({ response }) => response })
        : await send();
      return parseAnswer(answer) as never;
    },
  };
}

function withToken(headers: NonNullable<RequestInit['headers']>, token: string): [string, string][] {
  const entries = (Symbol.iterator in headers ? headers : Object.entries(headers)) as Iterable<
    [string, string]
  >;
  const others = [...entries].filter(([name]) => name.toLowerCase() !== 'authorization');
  return [...others, ['authorization', `Bearer ${token}`]];
}

function isStream(body: unknown): boolean {
  return typeof body === 'object' && body !== null && ('getReader' in body || Symbol.asyncIterator in body);
}

/** Another tab writes, or this one comes back from a cache or a freeze. There are no such events outside a page. */
function watchPage(change: 'addEventListener' | 'removeEventListener', look: () => void): void {
  const page = globalThis as Partial<Record<typeof change, (name: string, listener: () => void) => void>>;
  for (const name of ['storage', 'pageshow', 'visibilitychange']) page[change]?.(name, look);
}
