import { readFileSync } from 'node:fs';
import { serviceWorkload } from '../operations.ts';
import { startServer } from '../../../test/support/measured-server.ts';
import type { World } from '../world.ts';
import { PEER_OPERATIONS, type BenchedServer, type PeerOperation } from './servers.ts';

const SERVICE = new URL('../../../src/server.js', import.meta.url).pathname;
const MANIFEST = new URL('../../../../package.json', import.meta.url);

const KNOWN: Record<PeerOperation, { request: string; signatures: string; expected: string }> = {
  verify: {
    request: 'GET /api/auth/verify',
    signatures: 'ES256 checked once a token',
    expected: '',
  },
  introspection: {
    request: 'POST /api/auth/introspect',
    signatures: 'ES256 checked once a token',
    expected: '"active":true',
  },
  refresh: {
    request: 'GET /api/auth/refresh',
    signatures: '1 HS256 checked, 1 HS256 and 1 ES256 made',
    expected: '"refresh_token":',
  },
};

/** The service with production's defaults, as in the other parts of the bench. */
export async function startLatchkey(world: World): Promise<BenchedServer> {
  const { version } = JSON.parse(readFileSync(MANIFEST, 'utf8')) as { version: string };
  const offers: BenchedServer['offers'] = {};
  for (const operation of PEER_OPERATIONS)
    offers[operation] = { ...KNOWN[operation], workload: await serviceWorkload(operation, world, 1) };
  const process = await startServer({
    script: SERVICE,
    nodeOptions: [],
    env: world.unlimited,
    logFile: `${world.folder}/latchkey.log`,
  });
  return {
    ...process,
    name: LATCHKEY,
    version,
    offers,
    redisPrefix: world.env.REDIS_PREFIX ?? '',
    databaseUrl: world.env.DATABASE_URL ?? '',
  };
}

export const LATCHKEY = 'Latchkey';
