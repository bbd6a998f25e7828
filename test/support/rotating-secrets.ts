import type { KeyRing, KeySet } from '../../src/domain/access-tokens/ports.ts';

/** A key ring of refresh secrets that the test changes, the newest first. Each is one byte, repeated. */
export function rotatingSecrets(...secrets: number[]) {
  const keysOf = (fills: number[]): KeySet => ({
    signing: [],
    refresh: fills.map((fill) => ({ kid: String(fill), secret: Buffer.alloc(32, fill) })),
  });
  const listeners: Parameters<KeyRing['onChange']>[0][] = [];
  const keyRing: KeyRing = {
    current: () => keysOf(secrets),
    onChange: (listener) => {
      listeners.push(listener);
    },
    reload: () => Promise.resolve(keysOf(secrets)),
    isIncomplete: () => false,
    isInUse: () => Promise.resolve(false),
  };
  const rotate = (...fills: number[]) => Promise.all(listeners.map((listener) => listener(keysOf(fills))));
  return { keyRing, rotate };
}
