/** The service cannot start, and the person at the terminal can mend it: the message says how, and no stack follows. */
export class StartError extends Error {
  override name = 'StartError';
}
