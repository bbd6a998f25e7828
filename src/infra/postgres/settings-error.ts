// Apart from `settle`, because commands and readiness need the error without loading the driver.

/** The code of a SettingsError: SQLSTATE's for an error in the server's configuration. */
export const SETTINGS_STATE = 'F0000';

/** A connection is not usable: settings of its role or database do harm, and only an administrator can change them. */
export class SettingsError extends Error {
  override name = 'SettingsError';
  // As an error of the server has them: Prisma passes on no other.
  readonly code = SETTINGS_STATE;
  readonly severity = 'FATAL';
  /** Which settings, with their values. */
  readonly reason: string;
  /** What an administrator should do. */
  readonly todo: string;

  constructor(reason: string, todo: string) {
    super(`${reason}. To do: ${todo} (docs/operating.md, "Settings of the role")`);
    this.reason = reason;
    this.todo = todo;
  }
}
