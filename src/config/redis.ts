import type { Values } from './fields.ts';

/** Problems of the REDIS_ variables in combination. Each was parsed before; an invalid one is undefined. */
export function redisProblems(values: Partial<Values>): string[] {
  const { REDIS_URL: url, REDIS_MODE: mode, REDIS_NODES: nodes, REDIS_SENTINEL_NAME: name } = values;
  const { REDIS_SENTINEL_USERNAME: username, REDIS_SENTINEL_PASSWORD: password, REDIS_CA: ca } = values;
  const { protocol, pathname, search } = url === undefined ? {} : new URL(url);
  const problems: string[] = [];
  const refuse = (isWrong: boolean, problem: string) => {
    if (isWrong) problems.push(problem);
  };
  const isCluster = mode === 'cluster';
  const isSentinel = mode === 'sentinel';

  refuse((isCluster || isSentinel) && url === undefined, `REDIS_URL is required with REDIS_MODE=${mode}`);
  refuse((isCluster || isSentinel) && nodes?.length === 0, `REDIS_NODES is required with REDIS_MODE=${mode}`);
  refuse(mode === 'single' && (nodes?.length ?? 0) > 0, 'REDIS_NODES needs REDIS_MODE=sentinel or cluster');
  refuse(isSentinel && name === undefined, 'REDIS_SENTINEL_NAME is required with REDIS_MODE=sentinel');
  for (const [variable, value] of Object.entries({
    REDIS_SENTINEL_NAME: name,
    REDIS_SENTINEL_USERNAME: username,
    REDIS_SENTINEL_PASSWORD: password,
  })) {
    refuse(!isSentinel && mode !== undefined && value !== undefined, `${variable} needs REDIS_MODE=sentinel`);
  }
  refuse(ca !== undefined && protocol !== 'rediss:', 'REDIS_CA needs a REDIS_URL that begins with rediss://');
  refuse(
    pathname !== undefined && !/^\/?\d{0,5}$/.test(pathname),
    'REDIS_URL must end after the database number',
  );
  refuse(
    isCluster && /[1-9]/.test(pathname ?? ''),
    'REDIS_URL must not name a database: a cluster has only 0',
  );
  refuse((search ?? '') !== '', 'REDIS_URL must not have a query');
  return problems;
}
