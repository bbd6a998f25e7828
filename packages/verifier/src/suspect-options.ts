import { VerifierError, type RefusalReason, type VerifierErrorOption } from './verifier-error.ts';

/** The reasons for which one wrong option refuses every token, and that option. */
const SUSPECTS: [reason: RefusalReason, option: VerifierErrorOption][] = [
  ['audience', 'audience'],
  ['issuer', 'issuer'],
  ['unknown_key', 'url'],
];

/**
 * Reports once for each such reason, unless a token was good before. A service that passes a refusal on as 401 and looks
 * no further would otherwise never hear of its mistake. Attackers send such tokens too: hence once, and only until then.
 */
export function suspectOptions<Read>(
  read: (token: string) => Promise<Read>,
  report: (error: VerifierError) => void,
): (token: string) => Promise<Read> {
  const untold = new Map<string, VerifierErrorOption>(SUSPECTS);
  return async (token) => {
    try {
      const good = await read(token);
      untold.clear();
      return good;
    } catch (error) {
      const { code, reason, expected, found } = error as VerifierError;
      const option = untold.get(reason);
      untold.delete(reason);
      const why = option === 'url' ? ', which publishes other keys' : '';
      if (option !== undefined)
        report(
          new VerifierError(code, reason, `no token has been good so far, check \`${option}\`${why}`, {
            option,
            expected,
            // A stranger's token may name anything, an e-mail address too.
            found: found?.includes('@') ? '(not shown)' : found,
            words: ['it is', `and the token is ${option === 'audience' ? 'for' : 'of'}`],
          }),
        );
      throw error;
    }
  };
}
