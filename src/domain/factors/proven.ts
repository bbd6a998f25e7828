import type { Caller } from '../principal.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import { fieldError, parseTry } from '../identifiers.ts';
import { normalisePassword, PASSWORD_MAX_LENGTH } from '../passwords/policy.ts';
import type { ConfirmationSource, ConfirmPassword } from '../users/confirm-password.ts';
import type { OwnAccount } from '../users/ports.ts';
import type { FactorCaller } from './ports.ts';

interface ProvenPorts {
  confirmPassword: ConfirmPassword;
  /** FACTOR_LOGIN_MAX_AGE in seconds. */
  loginMaxAge: number;
  clock: Clock;
}

/** A request with the current password, as it was sent. */
export interface FactorChangeRequest extends ConfirmationSource {
  currentPassword: string;
}

/** What every change of an account's own factors demands of its caller. */
export function makeProven({ confirmPassword, loginMaxAge, clock }: ProvenPorts) {
  return {
    /**
     * For the store, which checks it at the effect.
     * @throws AuthError `token_not_allowed` (an LLT), `unavailable` (the clock is not trusted)
     */
    caller({ user, tokenId, type, acr, createdAt }: Caller): FactorCaller {
      // A leaked LLT must not change how its owner logs in.
      if (type !== 'access') throw new AuthError('token_not_allowed');
      // The age of the session, the step of a code and the age of a challenge would be as wrong as the clock.
      if (!clock.isTrusted()) throw new AuthError('unavailable');
      const openedSince = clock.now() - loginMaxAge * 1000;
      return { userId: user.id, tokenId, withFactor: acr !== null, createdAt, openedSince };
    },

    /** @throws AuthError `validation_failed`, and those of `ConfirmPassword` */
    password(caller: Caller, request: FactorChangeRequest): Promise<OwnAccount> {
      const tried = parseTry(normalisePassword(request.currentPassword), PASSWORD_MAX_LENGTH);
      if (!tried.ok)
        throw new AuthError('validation_failed', { errors: [fieldError('/current_password', tried)] });
      return confirmPassword(caller, request.currentPassword, request);
    },
  };
}

export type Proven = ReturnType<typeof makeProven>;
