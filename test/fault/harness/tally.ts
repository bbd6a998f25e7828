/** What clients and watch saw since the last `reset`. */
export interface Tally {
  requests: number;
  /** Tries at what makes a token: logins, signups and new long-lived tokens. */
  openings: number;
  /** Requests sent again after a lost connection or an answer that says to try again. */
  retries: number;
  /** The first answers of 503, with their code. */
  unavailable: string[];
  /** Sessions and long-lived tokens that were refused although nobody had ended them. */
  signOuts: number;
  /** Answers of 200 to a token whose revocation had been answered 200. */
  revokedAccepted: number;
  /** How often revoked tokens were tried. */
  revokedTried: number;
  /** Requests that ended without an answer. */
  lost: number;
  /** Milliseconds of the slowest answer. */
  slowest: number;
  /** Answers that the contract does not have, and answers that came too late; the first few in words. */
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
    lost: 0,
    slowest: 0,
    problems: [],
  };
}

/** Forgets in place: everybody holds the same tally. */
export function reset(tally: Tally): void {
  Object.assign(tally, makeTally());
}

/** The line of one fault. */
export function lineOf(name: string, tally: Tally): string {
  const { requests, retries, lost, signOuts, revokedTried, revokedAccepted, slowest, problems } = tally;
  return [
    `fault: ${name}: ${requests} requests, ${retries} retries, ${lost} lost`,
    `sign-outs ${signOuts}, revoked accepted ${revokedAccepted} of ${revokedTried} tries`,
    `slowest answer ${Math.round(slowest)} ms, problems ${problems.length}`,
  ].join('; ');
}
