import type { KeyObject } from 'node:crypto';
import type { PublicJwks } from '../../domain/services/assertion.ts';
import type { Clock } from '../../domain/clock.ts';
import type { AssertionRefusal } from '../../domain/refusal-reasons.ts';
import { makeCalmLog, type LogLine } from './calm-log.ts';
import { fetchJwks, type FetchOptions, type IssuerError } from './fetch-jwks.ts';
import { usableKeys, type IssuerKey } from './jwks.ts';

/** The members of an assertion's header that choose the key. */
export interface WantedKey {
  kid: string | undefined;
  alg: string;
}

/** The public keys of the issuers that clients trust. Fetched keys stay in use while their issuer is away. */
export interface IssuerKeys {
  /**
   * @returns the issuer's key, or why there is none: `unavailable` if it is unknown and the last fetch failed.
   */
  keyFor(
    issuer: string,
    wanted: WantedKey,
  ): Promise<KeyObject | Extract<AssertionRefusal, 'issuer' | 'unknown_key' | 'algorithm'> | 'unavailable'>;
  /** Begins to fetch the keys of each issuer that has no file and was not asked before: at the start, or a new one. */
  fetchNew(): void;
  /** Fetches the keys of every issuer that has no file, every 5 minutes. The log says which failed. */
  refreshAll(): Promise<void>;
}

interface IssuerKeysParts extends FetchOptions {
  /** Every issuer that a client trusts, with the keys that an operator gave; null if they are fetched. */
  registered: () => ReadonlyMap<string, PublicJwks | null>;
  clock: Pick<Clock, 'monotonic'>;
  log: { warn: LogLine };
}

/** What has been fetched from one issuer. */
interface Fetched {
  keys: readonly IssuerKey[];
  /** Whether the last fetch worked; null before the first one has ended. */
  worked: boolean | null;
  begun: number;
  running: Promise<void> | null;
}

/** Milliseconds between two fetches for unknown kids: a client decides how often they happen. */
const COOLDOWN = 10_000;

/** Keeps the keys by issuer, so that no issuer can sign for another one. */
export function makeIssuerKeys({ registered, clock, log, ...options }: IssuerKeysParts): IssuerKeys {
  const warn = makeCalmLog(log, clock);
  const fetched = new Map<string, Fetched>();
  const ofFiles = new WeakMap<PublicJwks, IssuerKey[]>();

  function ofFile(jwks: PublicJwks): IssuerKey[] {
    const keys = ofFiles.get(jwks) ?? usableKeys(jwks);
    ofFiles.set(jwks, keys);
    return keys;
  }

  /** Forgets the issuers that are no longer registered, or have a file now. */
  function prune(): void {
    for (const issuer of fetched.keys()) if (registered().get(issuer) !== null) fetched.delete(issuer);
  }

  function ofIssuer(issuer: string): Fetched {
    const state = fetched.get(issuer) ?? { keys: [], worked: null, begun: -Infinity, running: null };
    fetched.set(issuer, state);
    return state;
  }

  /** The issuers that have no file. */
  function fetching(): (readonly [issuer: string, state: Fetched])[] {
    prune();
    const issuers = [...registered()].filter(([, jwks]) => jwks === null);
    return issuers.map(([issuer]) => [issuer, ofIssuer(issuer)]);
  }

  async function load(issuer: string, state: Fetched): Promise<void> {
    state.begun = clock.monotonic();
    try {
      state.keys = usableKeys(await fetchJwks(issuer, options));
      state.worked = true;
    } catch (error) {
      state.worked = false;
      const failing = [...fetched.values()].filter(({ worked }) => worked === false).length;
      const { code, message, todo } = error as IssuerError;
      warn({ issuer, code, reason: message, todo, failing }, "an issuer's keys could not be fetched");
    }
  }

  /** Concurrent calls share one fetch. */
  function loadOnce(issuer: string, state: Fetched): Promise<void> {
    return (state.running ??= load(issuer, state).finally(() => {
      state.running = null;
    }));
  }

  return {
    async keyFor(issuer, wanted) {
      prune();
      const jwks = registered().get(issuer);
      if (jwks === undefined) return 'issuer';
      if (jwks !== null) return choose(ofFile(jwks), wanted);
      const state = ofIssuer(issuer);
      const known = choose(state.keys, wanted);
      if (known !== 'unknown_key') return known;
      if (state.running || clock.monotonic() - state.begun >= COOLDOWN) await loadOnce(issuer, state);
      const found = choose(state.keys, wanted);
      return found === 'unknown_key' && state.worked !== true ? 'unavailable' : found;
    },
    fetchNew() {
      for (const [issuer, state] of fetching()) if (state.begun === -Infinity) void loadOnce(issuer, state);
    },
    async refreshAll() {
      await Promise.all(fetching().map(([issuer, state]) => loadOnce(issuer, state)));
    },
  };
}

/** A token without a kid is of the issuer's only key. */
function choose(
  keys: readonly IssuerKey[],
  { kid, alg }: WantedKey,
): KeyObject | Extract<AssertionRefusal, 'unknown_key' | 'algorithm'> {
  const isOnly = kid === undefined && keys.length === 1;
  const named = isOnly ? keys : keys.filter((key) => kid !== undefined && key.kid === kid);
  if (named.length === 0) return 'unknown_key';
  return named.find(({ algorithms }) => algorithms.includes(alg))?.key ?? 'algorithm';
}
