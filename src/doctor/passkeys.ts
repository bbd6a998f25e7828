import { ok, warn, type Finding } from './finding.ts';

const CHECK = 'passkeys';

/**
 * Passkeys that cannot be used are factors all the same, so their owners need a code for each login.
 * @param rpId WEBAUTHN_RP_ID; null if passkeys are off
 */
export function judgePasskeys(
  rpId: string | null,
  { all, foreign }: { all: number; foreign: number },
): Finding {
  if (foreign === 0) return ok(CHECK, rpId === null ? 'off, and nobody has one' : `${all} for ${rpId}`);
  const why = rpId === null ? 'passkeys are off' : `they are of another RP ID than ${rpId}`;
  const todo =
    'set WEBAUTHN_RP_ID as it was; if it has to change, their owners log in with a code and add a passkey again ' +
    '(docs/second-factor.md, "Another RP ID")';
  return warn(CHECK, `${foreign} of ${all} cannot be used, because ${why}`, todo);
}
