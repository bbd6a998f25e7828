import type { Config } from '../config/config.ts';
import { parseFactorKeys } from '../infra/crypto/factor-keys.ts';
import { existingFactorKeys, factorKeysOf } from '../infra/crypto/generated-keys.ts';
import { fail, ok, warn, type Finding } from './finding.ts';

const CHECK = 'factor keys';

/** The ids of the keys that the service loads, the one that encrypts first. */
export function loadedFactorKeys(config: Config): string[] {
  const text = factorKeysOf(config, existingFactorKeys);
  return text === null ? [] : parseFactorKeys(text).map(({ id }) => id);
}

/**
 * Compares the keys with those that the secrets need.
 * @param used how many secrets each key encrypts
 */
export function judgeFactorKeys(loaded: readonly string[], used: ReadonlyMap<string, number>): Finding {
  const [newest] = loaded;
  const secrets = sum([...used.values()]);
  const lacking = [...used].filter(([id]) => !loaded.includes(id));
  if (lacking.length > 0) {
    const found =
      `${sum(lacking.map(([, count]) => count))} of ${secrets} secrets need ` +
      `${lacking.map(([id]) => id).join(', ')}, which FACTOR_KEYS lacks: their owners get 503 at the second step of a login`;
    return fail(CHECK, found, 'put the key back (docs/runbook.md, "A lost factor key")');
  }
  if (newest === undefined) return ok(CHECK, 'none, so no second factor can be added');
  const old = secrets - (used.get(newest) ?? 0);
  if (old === 0) return ok(CHECK, `${loaded.length}; all ${secrets} secrets are under the first one`);
  const todo = 'when every replica has the first key, run `latchkey factors rekey`';
  return warn(CHECK, `${loaded.length}; ${old} of ${secrets} secrets are not under the first one`, todo);
}

function sum(counts: readonly number[]): number {
  return counts.reduce((all, count) => all + count, 0);
}
