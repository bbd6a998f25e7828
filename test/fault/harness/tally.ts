/** Observations of the clients and the watch since the last `reset`. */
export interface Tally {
  requests: number;
  /** Tries to create a token: logins, signups and new long-lived tokens. */
  openings: number;
  /** Retries after a lost connection or a retryable answer. */
  retries: number;
  /** The first 503 answers, with their code. */
  unavailable: string[];
  /** Sessions and long-lived tokens that were refused although no client had ended them. */
  signOuts: number;
  /** Answers of 200 to a token whose revocation had been answered 200. */
  revokedAccepted: number;
  /** Number of tries with revoked tokens. */
  revokedTried: number;
  /** Answers with a role whose removal had been answered 200. */
  rolesReturned: number;
  /** Number of tries with tokens of users without roles. */
  rolesTried: number;
  /** Requests that ended without an answer. */
  lost: number;
  /** The slowest answer: its milliseconds and its request. */
  slowest: { took: number; what: string };
  /** Answers outside the contract, and late answers; only the first few. */
  problems: string[];
}

export function makeTally(): Tally {
  return {
    requests: 0,
    openings: 0,
    retries: 0,
    unavailable: [],
    signOuts: 0,
    revokedAccepted: 0,
    revokedTried: 0,
    rolesReturned: 0,
    rolesTried: 0,
    lost: 0,
    slowest: { took: 0, what: 'none' },
    problems: [],
  };
}

/** Resets in place, because all parts share one tally. */
export function reset(tally: Tally): void {
  Object.assign(tally, makeTally());
}

/** The summary line of one fault. */
export function lineOf(name: string, tally: Tally): string {
  const { requests, retries, lost, signOuts, revokedTried, revokedAccepted, slowest, problems } = tally;
  const { rolesTried, rolesReturned } = tally;
  return [
    `fault: ${name}: ${requests} requests, ${retries} retries, ${lost} lost`,
    `sign-outs ${signOuts}, revoked accepted ${revokedAccepted} of ${revokedTried} tries`,
    ...(rolesTried > 0 ? [`removed roles returned ${rolesReturned} of ${rolesTried} tries`] : []),
    `slowest answer ${Math.round(slowest.took)} ms (${slowest.what}), problems ${problems.length}`,
  ].join('; ');
}
