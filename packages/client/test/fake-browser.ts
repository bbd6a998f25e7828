import { setImmediate } from 'node:timers/promises';
import type { Test } from 'tap';
import { deferred } from '../../../test/support/deferred.ts';

/** A ceremony that the page has begun, and the user has not ended. */
interface Ceremony {
  kind: 'create' | 'get';
  mediation: string | undefined;
  /** As the browser gets it. */
  publicKey: Record<string, unknown>;
  succeed: (credential: unknown) => void;
  fail: (error: Error) => void;
}

interface Features {
  hasAutofill?: boolean;
  /** Other static members of `PublicKeyCredential`. */
  api?: Record<string, unknown>;
}

type Options = { publicKey: Record<string, unknown>; mediation?: string; signal: AbortSignal };

/**
 * The browser's part of passkeys, as globals for the time of a test. It refuses a second ceremony, as
 * browsers do.
 */
export function fakeBrowser(t: Test, { hasAutofill = true, api = {} }: Features = {}) {
  const begun: Ceremony[] = [];
  const signals: [name: string, options: unknown][] = [];
  let pending: Ceremony | undefined;

  function begin(kind: Ceremony['kind']) {
    return async ({ publicKey, mediation, signal }: Options): Promise<unknown> => {
      if (pending) throw new DOMException('A request is already pending.', 'OperationError');
      signal.throwIfAborted();
      const { promise, resolve, reject } = deferred<unknown>();
      pending = { kind, mediation, publicKey, succeed: resolve, fail: reject };
      begun.push(pending);
      signal.addEventListener('abort', () => {
        // Later, so that a page that does not wait for it begins too early.
        void setImmediate().then(() => {
          reject(new DOMException('aborted', 'AbortError'));
        });
      });
      return promise.finally(() => (pending = undefined));
    };
  }

  const note = (name: string) => (options: unknown) => {
    signals.push([name, options]);
    return Promise.resolve();
  };
  const globals = {
    navigator: { credentials: { create: begin('create'), get: begin('get') } },
    PublicKeyCredential: {
      isConditionalMediationAvailable: () => Promise.resolve(hasAutofill),
      signalAllAcceptedCredentials: note('accepted'),
      signalUnknownCredential: note('unknown'),
      ...api,
    },
  };
  for (const [name, value] of Object.entries(globals)) {
    const before = Object.getOwnPropertyDescriptor(globalThis, name) ?? { value: undefined };
    Object.defineProperty(globalThis, name, { value, configurable: true });
    t.teardown(() => Object.defineProperty(globalThis, name, { ...before, configurable: true }));
  }
  return {
    begun,
    signals,
    /** The ceremony that the user sees, once there are this many. */
    async shown(count: number): Promise<Ceremony> {
      while (begun.length < count || !pending) await setImmediate();
      return pending;
    },
    isShown: () => pending !== undefined,
  };
}

/** What a browser answers. Its `toJSON` throws, as that of some password managers does. */
export function aCredential(response: Record<string, unknown>, id: Uint8Array = Buffer.from('id')) {
  const throws = () => {
    throw new TypeError('Illegal invocation');
  };
  return {
    rawId: bufferOf(id),
    id: 'another spelling',
    type: 'public-key',
    response: Object.assign(Object.create({ toJSON: throws }) as object, response),
    getClientExtensionResults: () => ({ credProps: { rk: true } }),
    toJSON: throws,
  };
}

export function bufferOf(bytes: Uint8Array | string): ArrayBuffer {
  return new Uint8Array(Buffer.from(bytes)).buffer;
}
