import { randomBytes } from 'node:crypto';
import { scratchDatabase } from '../../../test/support/postgres.ts';
import { basic, type TestService } from '../../../test/support/registered-service.ts';
import { CONNECTIONS, inTurn } from '../operations.ts';
import { requestText } from '../../../test/support/generator/requests.ts';
import { startServer, type BareTokens } from '../../../test/support/measured-server.ts';
import type { World } from '../world.ts';
import type { InstalledPeers } from './install.ts';
import type { BenchedServer } from './servers.ts';
import { introspecting, rotating } from './workloads.ts';

/** What differs between the peers that run on Node. */
interface NodePeer {
  /** The package that names it and its version. */
  name: string;
  script: string;
  usesPostgres: boolean;
  offers(tokens: BareTokens, client: TestService): BenchedServer['offers'];
}

const NODE_PEERS: readonly NodePeer[] = [
  {
    name: 'better-auth',
    script: 'better-auth.mjs',
    usesPostgres: true,
    offers: ({ access }) => ({
      verify: {
        request: 'GET /api/auth/get-session',
        signatures: 'HMAC-SHA256 checked',
        expected: '"session":{',
        workload: inTurn(access.map((token) => requestText('GET /api/auth/get-session', { token }))),
      },
    }),
  },
  {
    name: '@better-auth/oauth-provider',
    script: 'better-auth-oauth.mjs',
    usesPostgres: true,
    offers: ({ access, refresh }, client) => ({
      introspection: {
        request: 'POST /api/auth/oauth2/introspect',
        signatures: '1 ES256 checked',
        expected: '"active":true',
        workload: introspecting('/api/auth/oauth2/introspect', basic(client), access),
      },
      refresh: {
        request: 'POST /api/auth/oauth2/token',
        signatures: '1 ES256 made',
        expected: '"refresh_token":',
        workload: rotating('/api/auth/oauth2/token', basic(client), refresh),
      },
    }),
  },
  {
    name: '@fastify/session',
    script: 'fastify-session.mjs',
    usesPostgres: false,
    offers: ({ access }) => ({
      verify: {
        request: 'GET /session',
        signatures: 'HMAC-SHA256 checked',
        expected: '"user":{',
        workload: inTurn(
          access.map((cookie) => requestText('GET /session', { headers: { Cookie: cookie } })),
        ),
      },
    }),
  },
  {
    name: 'oidc-provider',
    script: 'oidc-provider.mjs',
    usesPostgres: false,
    offers: ({ access, refresh }, client) => ({
      introspection: {
        request: 'POST /token/introspection',
        signatures: 'none: opaque tokens',
        expected: '"active":true',
        workload: introspecting('/token/introspection', basic(client), access),
      },
      refresh: {
        request: 'POST /token',
        signatures: '1 ES256 made',
        expected: '"refresh_token":',
        workload: rotating('/token', basic(client), refresh),
      },
    }),
  },
];

/** Starts the peers from npm, each with a prefix of its own in the bench's Redis. */
export async function startNodePeers(world: World, installed: InstalledPeers): Promise<BenchedServer[]> {
  const started: BenchedServer[] = [];
  try {
    for (const peer of NODE_PEERS) started.push(await startNodePeer(peer, world, installed));
    return started;
  } catch (error) {
    await Promise.all(started.map((server) => server.stop()));
    throw error;
  }
}

async function startNodePeer(
  peer: NodePeer,
  { env, folder }: World,
  installed: InstalledPeers,
): Promise<BenchedServer> {
  const { name, script, usesPostgres } = peer;
  const { DATABASE_URL = '', PATH, REDIS_PREFIX = '', REDIS_URL } = env;
  const database = usesPostgres ? await scratchDatabase(DATABASE_URL) : null;
  const redisPrefix = `${REDIS_PREFIX}${name}:`;
  const client = { serviceId: 'bench', secret: randomBytes(32).toString('base64url') };
  try {
    const process = await startServer({
      script: installed.script(script),
      nodeOptions: [],
      env: {
        PATH,
        NODE_ENV: 'production',
        PEER_DATABASE_URL: database?.url,
        PEER_REDIS_URL: REDIS_URL,
        PEER_PREFIX: redisPrefix,
        PEER_SESSIONS: String(CONNECTIONS),
        PEER_SECRET: randomBytes(48).toString('base64url'),
        PEER_CLIENT_ID: client.serviceId,
        PEER_CLIENT_SECRET: client.secret,
      },
      logFile: `${folder}/${script}.log`,
    });
    if (!process.tokens) {
      await process.stop();
      throw new Error(`${name} printed no tokens`);
    }
    return {
      ...process,
      name,
      version: installed.versionOf(name),
      redisPrefix,
      databaseUrl: database?.url ?? null,
      offers: peer.offers(process.tokens, client),
      async stop() {
        await process.stop();
        await database?.drop();
      },
    };
  } catch (error) {
    await database?.drop();
    throw error;
  }
}
