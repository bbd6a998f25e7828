import type { KeyLife } from '../domain/access-tokens/key-lifecycle.ts';
import { ok, warn, type Finding } from './finding.ts';
import { daysSince, MAX_AGE } from './keys.ts';

/** A key in the folder, with its state as recorded by the replicas. */
export interface JudgedKey extends KeyLife {
  /** Its highest name in the folder. */
  file: string;
  /** All of its names: it has two while it is being renamed. */
  files: string[];
  algorithm: string;
  createdAt: number;
}

/** Checks the keys of a running service. @param now ms since 1970. */
export function checkKeyLife(keys: readonly JudgedKey[], now: number): Finding[] {
  return [judgeSigner(keys, now), judgeNext(keys), judgeOld(keys)];
}

function judgeSigner(keys: readonly JudgedKey[], now: number): Finding {
  const check = 'the key that signs';
  const signer = keys.find(({ state }) => state === 'signing');
  if (!signer) return warn(check, 'no replica has reported it', 'start the service with this folder');
  const age = daysSince(signer.createdAt, now);
  const found = `${signer.file} (${signer.algorithm}), ${age} days old by its file`;
  const hasNext = keys.some(({ state, next }) => state === 'published' && next !== null);
  if (age <= MAX_AGE || hasNext) return ok(check, found);
  return warn(check, found, 'create the next one with `latchkey keys add`');
}

function judgeNext(keys: readonly JudgedKey[]): Finding {
  const check = 'keys that do not sign yet';
  const unseen = keys.filter(({ state }) => state === 'unseen').map(({ file }) => file);
  if (unseen.length > 0) {
    return warn(
      check,
      `no replica has loaded ${unseen.join(', ')}`,
      'wait, or check that the replicas mount this folder',
    );
  }
  const next = keys.filter(({ state, next: from }) => state === 'published' && from !== null);
  if (next.length === 0) return ok(check, 'none');
  return ok(check, next.map(({ file, next: from }) => `${file} signs from ${time(from)}`).join(', '));
}

function judgeOld(keys: readonly JudgedKey[]): Finding {
  const check = 'keys that do not sign any more';
  const retirable = keys.filter(({ state }) => state === 'retirable').map(({ file }) => file);
  if (retirable.length > 0) {
    const todo = retirable.map((file) => `latchkey keys retire ${file}`).join(', ');
    return warn(check, `no good token is signed with ${retirable.join(', ')}`, todo);
  }
  const kept = keys.filter(({ state }) => state === 'verifying');
  return ok(check, kept.length === 0 ? 'none' : kept.map(keptFor).join(', '));
}

function keptFor({ file, longLived, next }: JudgedKey): string {
  return longLived > 0
    ? `${file} is needed for ${longLived} long-lived tokens`
    : `${file} can be retired from ${time(next)}`;
}

export function time(at: number | null): string {
  return at === null ? '-' : new Date(at).toISOString().slice(0, 19) + 'Z';
}
