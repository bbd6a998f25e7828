export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The variables that are set, without the white space and the byte order mark that editors, shells and secret
 * stores leave around a value. An empty one counts as missing.
 */
export function givenVariables(env: Environment): Environment {
  const tidied = Object.entries(env).map(([name, value = '']) => [name, value.trim()] as const);
  return Object.fromEntries(tidied.filter(([, value]) => value !== ''));
}
