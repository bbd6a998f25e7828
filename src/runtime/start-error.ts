/** The service cannot start, and the operator can fix it. The message says how, and is printed without a stack. */
export class StartError extends Error {
  override name = 'StartError';
}
