import { VerifierError, type RefusalReason } from './verifier-error.ts';

/** The reasons for which one wrong option refuses every token, and what to check. */
const SUSPECTS: [reason: RefusalReason, check: string][] = [
  ['audience', '`audience`'],
  ['issuer', '`issuer`'],
  ['unknown_key', '`url`, which publishes other keys'],
];

/**
 * Reports once for each such reason, unless a token was good before. A service that passes a refusal on as 401 and looks
 * no further would otherwise never hear of its mistake. Attackers send such tokens too: hence once, and only until then.
 */
export function suspectOptions<Read>(
  read: (token: string) => Promise<Read>,
  report: (error: VerifierError) => void,
): (token: string) => Promise<Read> {
  const untold = new Map<string, string>(SUSPECTS);
  return async (token) => {
    try {
      const good = await read(token);
      untold.clear();
      return good;
    } catch (error) {
      const { code, reason, expected, found } = error as VerifierError;
      const check = untold.get(reason);
      untold.delete(reason);
      if (check !== undefined)
        report(
          new VerifierError(code, reason, `no token has been good so far, check ${check}`, {
            expected,
            // A stranger's token may name anything, an e-mail address too.
            found: found?.includes('@') ? '(not shown)' : found,
          }),
        );
      throw error;
    }
  };
}
