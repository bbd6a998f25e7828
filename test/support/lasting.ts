import type { Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { createLimited, createLongLived, verify, verifyInScope } from './client.ts';
import { onAStore } from './stores.ts';

/**
 * A kind of token whose record is that of a long-lived token. `verify` also takes access tokens, so a test that ends
 * tokens reads the same for each kind.
 */
export interface Lasting {
  kind: 'llt' | 'limited';
  createLongLived: typeof createLongLived;
  verify: typeof verify;
}

const LASTING: readonly Lasting[] = [
  { kind: 'llt', createLongLived, verify },
  {
    kind: 'limited',
    async createLongLived(target, accessToken, device) {
      const more = device === undefined ? {} : { name: device };
      const { id, token } = await createLimited(target, accessToken, ['orders:read'], more);
      return { id, longlived_token: token };
    },
    verify: (target, token) => verifyInScope(target, token),
  },
];

/** Runs a test for each kind, because each ends in the same ways. */
export async function onEachLasting(
  t: Test,
  title: string,
  body: (t: Test, lasting: Lasting) => Promise<void>,
): Promise<void> {
  for (const each of LASTING) await t.test(titleOf(title, each), (t) => body(t, each));
}

/** Runs a suite for each kind, as `onAStore` does. */
export function onAStoreWithEachLasting(
  title: string,
  suite: (t: Test, env: Environment, lasting: Lasting) => Promise<void>,
): void {
  for (const each of LASTING) onAStore(titleOf(title, each), (t, env) => suite(t, env, each));
}

function titleOf(title: string, { kind }: Lasting): string {
  return kind === 'llt' ? title : `${title} (${kind})`;
}
