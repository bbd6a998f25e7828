import { readFileSync } from 'node:fs';

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The environment of this process, which server.ts and cli.ts pass on. The SDK of OpenTelemetry reads its
 * variables from `process.env` by itself, so these are tidied in place.
 */
export function ownEnvironment(): Environment {
  for (const [name, value] of Object.entries(process.env))
    if (name.startsWith('OTEL_')) process.env[name] = tidied(value);
  return process.env;
}

/**
 * Without the white space and the byte order mark that editors, shells and secret stores leave around a
 * value.
 */
function tidied(text = ''): string {
  return text.trim();
}

/** A variable, or the content of the file that `NAME_FILE` points to. An empty one counts as missing. */
export function readVariable(env: Environment, name: string, problems: string[] = []): string | undefined {
  const value = tidied(env[name]);
  const file = fileOfVariable(env, name);
  if (value && file) problems.push(`${name} and ${name}_FILE are both set`);
  if (value || !file) return value || undefined;
  try {
    return tidied(readFileSync(file, 'utf8')) || undefined;
  } catch (error) {
    problems.push(`${name}_FILE cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})`);
    return undefined;
  }
}

/** The path in `NAME_FILE`. */
export function fileOfVariable(env: Environment, name: string): string | undefined {
  return tidied(env[`${name}_FILE`]) || undefined;
}

/** A secret whose file is empty is missing too. One whose file cannot be read is not, but a problem. */
export function isMissing(env: Environment, name: string): boolean {
  const problems: string[] = [];
  return readVariable(env, name, problems) === undefined && problems.length === 0;
}

/** Only these variables, each with its NAME_FILE. */
export function onlyVariables(env: Environment, names: readonly string[]): Environment {
  const variables = names.flatMap((name) => [name, `${name}_FILE`]);
  return Object.fromEntries(variables.map((name) => [name, env[name]]));
}

/**
 * The threads of libuv, which reads UV_THREADPOOL_SIZE by itself and as it stands: what begins with no
 * number, be it empty or a byte order mark, makes one thread.
 * @returns NaN for what no operator means.
 */
export function threadPoolSize({ UV_THREADPOOL_SIZE: text = '4' }: Environment): number {
  return /^[ \t-\r]*\d+[ \t-\r]*$/.test(text) ? Number(text) : NaN;
}
