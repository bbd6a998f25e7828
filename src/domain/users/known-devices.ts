import { ignoreOutage } from '../errors.ts';

/** The devices that have logged in to an account, by their fingerprints. */
export interface KnownDeviceStore {
  /**
   * Records a login at the present time.
   * @param withFactor whether it took the account's second factor.
   * @throws AuthError `rate_limited`, `unavailable`
   */
  remember(userId: number, caller: string, withFactor: boolean): Promise<void>;
}

/**
 * Makes the caller's device known to an account, if it has a fingerprint. An outage of the database is ignored, and so is
 * a full lane: this login has succeeded, and the device's next one records it.
 */
export async function rememberDevice(
  knownDevices: KnownDeviceStore,
  userId: number,
  caller: string,
  withFactor = false,
): Promise<void> {
  if (caller !== '') await knownDevices.remember(userId, caller, withFactor).catch(ignoreOutage);
}
