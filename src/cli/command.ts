import type { AccountKey } from '../domain/identifiers.ts';
import type { Environment } from '../config/config.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import type { Values } from './arguments.ts';

/** One of `latchkey`'s commands. @throws UsageError, CommandError, ConfigError, AuthError `unavailable` */
export type Command = (invocation: Invocation) => Promise<Outcome>;

export interface Invocation {
  env: Environment;
  /** The words after the command's name. */
  words: readonly string[];
  values: Values;
  /** Tells the audit trail what has been changed so far, for the event of a command that fails or is stopped later. */
  note: (facts: Facts) => void;
  /** For a command that must not be interrupted at any point: once it has called this, it ends itself on abort. */
  stopped: () => AbortSignal;
}

/** Fields of an audit event. */
export type Facts = Readonly<Record<string, string | number | boolean>>;

/** The result of a command. */
export interface Outcome {
  /** For `--json`. */
  result: object;
  /** For the terminal. */
  text: string;
  /** True if the command has written to standard output itself: `text` goes to standard error. */
  hasOutput?: boolean;
  /** Fields of its audit event, besides those of its arguments. */
  audited?: Facts;
  /** If false, the command ran but found or left a problem: exit code 1. */
  isWell?: boolean;
}

/** An action on an account. @returns null if there is no such account. */
export type Act = (
  postgres: Pick<Postgres, 'prisma' | 'run' | 'inLane'>,
  user: AccountKey,
  invocation: Pick<Invocation, 'env' | 'note' | 'values'>,
) => Promise<Outcome | null>;

/** @param time milliseconds since 1970. */
export function isoOrNull(time: number | null): string | null {
  return time === null ? null : new Date(time).toISOString();
}

/** The command did not do what the user asked for. */
export class CommandError extends Error {
  override name = 'CommandError';
  readonly facts: object;

  /** @param facts for `--json`, besides the message. */
  constructor(message: string, facts: object = {}) {
    super(message);
    this.facts = facts;
  }
}
