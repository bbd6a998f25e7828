import { AuthError, isOutage } from '../errors.ts';
import { fieldError, parseLoginName, parseTry, type LoginName } from '../identifiers.ts';
import type { MailStore } from './wanted-mail.ts';

/** Names that wait for their look-up. */
const MAX_NAMES = 1000;

/** Seconds: the next look-up begins within this time. */
const RETRY_AFTER = 1;

/** The most characters of a name, as at login. */
const NAME_MAX_LENGTH = 254;

export type ResetRequests = ReturnType<typeof makeResetRequests>;

/**
 * Requests for a password reset, which tell nobody whether there is an account. They are answered before the name is
 * looked up, and the look-up runs in a task of its own, so that not even the load of the replica follows a request.
 */
export function makeResetRequests({ mails }: { mails: Pick<MailStore, 'check' | 'wantReset'> }) {
  /** By their canonical form: how fast a queue of one name empties would tell of its account. */
  const waiting = new Map<string, LoginName>();

  return {
    /**
     * Takes the name of any text that a login takes. A killed replica forgets it.
     * @throws AuthError `validation_failed`, `overloaded`, `unavailable`
     */
    add: async (username: string): Promise<void> => {
      const tried = parseTry(username, NAME_MAX_LENGTH);
      if (!tried.ok) throw new AuthError('validation_failed', { errors: [fieldError('/username', tried)] });
      await mails.check();
      if (waiting.size >= MAX_NAMES) throw new AuthError('overloaded', { retryAfter: RETRY_AFTER });
      const name = parseLoginName(username);
      if (name) waiting.set(JSON.stringify(name), name);
    },

    /**
     * Looks up what waits. A name is kept while the database is away.
     * @param most names: how fast a long queue empties would tell how many of them have accounts.
     * @throws AuthError `unavailable`
     */
    work: async (most = MAX_NAMES): Promise<void> => {
      // What arrives meanwhile waits for the next call.
      for (const [key, name] of [...waiting].slice(0, most)) {
        waiting.delete(key);
        try {
          await mails.wantReset(name);
        } catch (error) {
          // At the end of the queue: neither a bug nor a locked row of one name may hold up the others.
          if (isOutage(error)) waiting.set(key, name);
          throw error;
        }
      }
    },

    /** How many names wait. */
    size: () => waiting.size,
  };
}
