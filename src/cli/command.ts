import { ConfigError, databaseVariables, loadConfig, NO_HASHES, type Environment } from '../config.ts';
import type { Values } from './arguments.ts';

/** One of `latchkey`'s commands. @throws UsageError, CommandError, ConfigError, AuthError `unavailable` */
export type Command = (invocation: Invocation) => Promise<Outcome>;

export interface Invocation {
  env: Environment;
  /** What follows the command's name. */
  words: readonly string[];
  values: Values;
  /** For a command that may not be cut off anywhere: from now on it ends by itself when this is aborted. */
  stopped: () => AbortSignal;
}

/** What a command came to. */
export interface Outcome {
  /** For a machine. */
  result: object;
  /** For a person. */
  text: string;
  /** Done, but what was found, or came of it, is not well: exit code 1. */
  isWell?: boolean;
}

/** What was asked for was not done. */
export class CommandError extends Error {
  override name = 'CommandError';
  readonly facts: object;

  /** @param facts for a machine, beside the message. */
  constructor(message: string, facts: object = {}) {
    super(message);
    this.facts = facts;
  }
}

/**
 * @returns DATABASE_URL and DATABASE_TIMEOUT, in milliseconds.
 * @throws ConfigError where there is none.
 */
export function databaseOf(env: Environment): { url: string; timeout: number } {
  const { DATABASE_URL: url, DATABASE_TIMEOUT: timeout } = loadConfig(databaseVariables(env), NO_HASHES);
  if (url === undefined)
    throw new ConfigError(['DATABASE_URL is required: the embedded database migrates at its start']);
  return { url, timeout };
}
