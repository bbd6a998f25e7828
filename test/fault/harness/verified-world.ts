import type { VerifierOptions } from '@latchkey/verifier';
import type { Test } from 'tap';
import type { Environment } from '../../../src/config/config.ts';
import { agentIsReady, startAgent } from '../../../packages/agent/test/agent.ts';
import { testFolder } from '../../support/folder.ts';
import { latchkey } from '../../support/latchkey.ts';
import { packedAgent, packedVerifier } from '../../support/packed-packages.ts';
import { testDatabase } from '../../support/postgres.ts';
import { startPythonFeedReader } from '../../support/python-feed-reader.ts';
import { aRegisteredService, basic } from '../../support/registered-service.ts';
import { makeBalancer } from './balancer.ts';
import { enforcementOracle } from './enforcement-oracle.ts';
import { isReady, startReplica } from './replica.ts';
import { startServiceAddress } from './service-address.ts';
import { makeTally } from './tally.ts';
import { askingAgent } from './verified-sessions.ts';

const ISSUER = 'https://id.example.com';
/** Longer than any run: an expired token would count as a revoked one. */
const LIFETIME = '86400';

/** Two replicas behind one address for their readers, whom an oracle asks about. */
export async function startVerifiedWorld(t: Test, stores: Environment) {
  const { url: database } = await testDatabase(t);
  const dataDir = testFolder(t);
  const env = { DATABASE_URL: database, DATA_DIR: dataDir, ISSUER, ACCESS_TOKEN_TTL: LIFETIME, ...stores };
  const replicas = [await startReplica(t, env), await startReplica(t, env)] as const;
  await Promise.all(replicas.map((replica) => isReady(replica, 60)));
  const tally = makeTally();
  const balancer = makeBalancer(replicas, tally);
  t.teardown(() => balancer.close());

  const clientOf = async (name: string) => {
    const created = await latchkey(['client', 'create', name, '--json'], { DATABASE_URL: database });
    const { client_id: id = '', client_secret: secret = '' } = JSON.parse(created.stdout) as Record<
      string,
      string
    >;
    return { id, secret };
  };
  const client = await clientOf('orders');
  const url = await startServiceAddress(t, replicas);
  const asker = await aRegisteredService(database, 'operator', ['readers']);
  const oracle = enforcementOracle(t, () => replicas.map((each) => each.url), basic(asker).authorization);
  const { createVerifier } = await packedVerifier(t);
  let made = 0;
  const verifier = (options: Partial<VerifierOptions> = {}) => {
    const reader = { instance: `verifier-${++made}` };
    const one = createVerifier({ issuer: ISSUER, audience: 'latchkey', client, url, reader, ...options });
    oracle.add(options.reader?.instance ?? reader.instance, one);
    t.teardown(() => one.close());
    return one;
  };
  const python = async () => {
    const reader = startPythonFeedReader(t, { url, ...(await clientOf('python')) });
    oracle.add('python', reader);
    return reader;
  };
  const main = packedAgent(t);
  /** Resolves once it is ready. */
  const agent = async (env: Environment = {}) => {
    const instance = `agent-${++made}`;
    const one = await startAgent(
      t,
      {
        LATCHKEY_URL: url,
        LATCHKEY_ISSUER: ISSUER,
        LATCHKEY_AUDIENCE: 'latchkey',
        LATCHKEY_CLIENT_ID: client.id,
        LATCHKEY_CLIENT_SECRET: client.secret,
        AGENT_INSTANCE: instance,
        ...env,
      },
      main,
    );
    oracle.add(instance, askingAgent(one));
    await agentIsReady(one);
    return { ...one, instance };
  };
  return { url, client, clientOf, replicas, balancer, tally, verifier, agent, python, oracle };
}

export type VerifiedWorld = Awaited<ReturnType<typeof startVerifiedWorld>>;
