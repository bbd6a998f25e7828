/** The run cannot begin, cannot go on, or may not. Its message is for the terminal. */
export class LoadError extends Error {
  override name = 'LoadError';
}
