/** What one check came to. Neither text ever holds a secret, or a URL that may hold one. */
export interface Finding {
  check: string;
  /** `warn` where it may be meant so, or where it cannot be told; `fail` where a promise is broken. */
  state: 'ok' | 'warn' | 'fail';
  found: string;
  /** What to do; not where all is well. */
  todo?: string;
}

export function ok(check: string, found: string): Finding {
  return { check, state: 'ok', found };
}

export function warn(check: string, found: string, todo: string): Finding {
  return { check, state: 'warn', found, todo };
}

export function fail(check: string, found: string, todo: string): Finding {
  return { check, state: 'fail', found, todo };
}
