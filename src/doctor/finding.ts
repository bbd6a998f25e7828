/** The result of one check. Its texts never contain a secret, or a URL that may contain one. */
export interface Finding {
  check: string;
  /** `warn` if it may be intended or is unknown; `fail` if it breaks a promise of the service. */
  state: 'ok' | 'warn' | 'fail';
  found: string;
  /** What to do; absent if the state is `ok`. */
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
