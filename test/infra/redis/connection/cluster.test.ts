import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { test } from 'tap';
import { redisServer } from '../../../support/redis.ts';
import { redisServersMissing } from '../../../support/redis-server.ts';
import { startOneNodeCluster } from '../../../support/redis-cluster.ts';

/** Milliseconds after which the process ends as failed, even if the test was killed meanwhile. */
const PATIENCE = 60_000;

test(
  'a closed client lets the process end, even during a read of the slot map',
  { skip: redisServersMissing },
  async (t) => {
    const { url, port } = await startOneNodeCluster(t);
    const file = new URL('../../../../src/infra/redis/connection/open-redis.js', import.meta.url).href;
    const script = `
      import { makeRedisCluster } from '${file}';
      setTimeout(() => process.exit(1), ${PATIENCE}).unref();
      const nodes = [{ host: '127.0.0.1', port: ${port} }];
      const cluster = makeRedisCluster({ server: ${JSON.stringify(redisServer(url))}, nodes, timeout: 5000 });
      cluster.on('error', () => {});
      await cluster.connect();
      const read = cluster.refreshSlotsCache.bind(cluster);
      cluster.refreshSlotsCache = (done) => {
        console.log('read');
        read(done);
        cluster.disconnect();
      };
    `;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
    t.equal(stdout, 'read\n', 'it reads the map, and no more once it is closed');
  },
);
