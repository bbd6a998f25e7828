// release
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { assertNoImpact } from '../fault/harness/assert-no-impact.ts';
import { startFleet } from '../fault/harness/fleet.ts';
import { isReady, startReplica } from '../fault/harness/replica.ts';
import { PATIENCE } from '../fault/harness/steady-load.ts';
import { buildImage, containers, CONTAINER_TOOLS, launchIn } from '../support/container.ts';
import { ROOT } from '../support/documents.ts';
import { testFolder } from '../support/folder.ts';
import { keyFolder } from '../support/image.ts';
import { PASSKEYS } from '../support/passkeys.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing } from '../support/redis.ts';
import { startRedis } from '../support/redis-server.ts';
import { sql } from '../support/sql.ts';
import { toolsMissing } from '../support/tools.ts';
import {
  besidePrevious,
  factorsBesidePrevious,
  passkeysBesideCodes,
  passkeysBesidePrevious,
  usesBesidePrevious,
  verifiedBesidePrevious,
} from './beside-previous.ts';

/** What runs when this version is rolled out: the commit of the release before it. Here 0.1.0, which was not published. */
const PREVIOUS = 'aa0991a2';
const PREVIOUS_IMAGE = 'localhost/latchkey:previous';
/** A commit that has codes and no passkeys: no release has been published in between. */
const CODES = '4a97580b';
const CODES_IMAGE = 'localhost/latchkey:codes';
const IMAGE = 'localhost/latchkey:test';

const skip = toolsMissing(...CONTAINER_TOOLS, 'nginx') || redisMissing;

/** Of both tests. */
const built = new Map<string, Promise<void>>();
function build(folder: () => string, name: string): Promise<void> {
  const building = built.get(name) ?? buildImage(folder(), name);
  built.set(name, building);
  return building;
}

function settingsOf(databaseUrl: string, redisUrl: string) {
  return {
    // The image takes no weaker one. The default timeout: a migration that holds a lock for longer fails requests.
    SCRYPT_LOG_N: '17',
    DATABASE_TIMEOUT: '5000',
    DATABASE_URL: databaseUrl,
    REDIS_URL: redisUrl,
    ISSUER: 'https://auth.example.com',
    SIGNING_KEYS_DIR: '/keys/signing',
    REFRESH_TOKEN_SECRET_FILE: '/keys/refresh-token-secret',
    FACTOR_KEYS: Buffer.alloc(32, 1).toString('base64url'),
    ...PASSKEYS,
  };
}

test('this version replaces the previous one under load, and goes back', { skip }, async (t) => {
  await build(() => ROOT, IMAGE);
  await build(() => sourcesOf(t, PREVIOUS), PREVIOUS_IMAGE);
  const { url: DATABASE_URL } = await testDatabase(t, { migrated: false });
  const redis = await startRedis(t);
  const command = async (image: string, name: string) => {
    const words = ['node', 'dist/src/cli.js', name, '--json'];
    const { code, output } = await containers(t, image).run({ DATABASE_URL }, ['--rm'], words);
    t.equal(code, 0, output);
    return output;
  };
  const migrate = async (image: string) => {
    const output = await command(image, 'migrate');
    // The other line is the audit trail's, and either may come first.
    const report = output.split('\n').find((line) => line.startsWith('{"applied"')) ?? '';
    return (JSON.parse(report) as { applied: string[] }).applied;
  };
  await migrate(PREVIOUS_IMAGE);
  await fill(DATABASE_URL);

  const conf = keyFolder(t);
  const settings = settingsOf(DATABASE_URL, redis.url);
  const [previous, next] = [PREVIOUS_IMAGE, IMAGE].map((each) =>
    launchIn(t, each, ['--volume', `${conf}:/keys:ro`]),
  );
  // At the image's cost of a hash, the usual share of logins would take all of the machine.
  const fleet = await startFleet(t, settings, [previous, previous], 0.1);
  await fleet.renewed(1);
  const since = performance.now();
  const applied = await migrate(IMAGE);
  const milliseconds = Math.round(performance.now() - since);
  await fleet.renewed(2);
  // Forward, with both versions side by side after the first step; then back in the same way.
  for (const [step, version] of [next, next, previous, previous].entries()) {
    const [oldest] = fleet.replicas;
    await fleet.add(version);
    if (oldest) t.equal(await fleet.remove(oldest), 0, 'the replaced replica exited with 0');
    await fleet.renewed(2);
    const [before, after] = fleet.replicas;
    if (step !== 0 || !before || !after) continue;
    const versions = {
      previous: before.url,
      next: after.url,
      databaseUrl: DATABASE_URL,
      purge: async () => {
        await command(PREVIOUS_IMAGE, 'purge');
      },
    };
    await besidePrevious(t, versions);
    await factorsBesidePrevious(t, versions);
    await passkeysBesidePrevious(t, versions);
    await verifiedBesidePrevious(t, versions);
    await usesBesidePrevious(t, versions);
  }
  const what = `upgraded from ${PREVIOUS} with ${applied.length} migrations in ${milliseconds} ms, and rolled back`;
  await assertNoImpact(t, what, fleet);
});

test('a release that has codes only keeps passkeys as factors, and signs nobody out', { skip }, async (t) => {
  await build(() => ROOT, IMAGE);
  await build(() => sourcesOf(t, CODES), CODES_IMAGE);
  const { url: databaseUrl } = await testDatabase(t);
  const settings = settingsOf(databaseUrl, (await startRedis(t)).url);
  const conf = keyFolder(t);
  const start = async (name: string) => {
    const replica = await startReplica(t, settings, launchIn(t, name, ['--volume', `${conf}:/keys:ro`]));
    await isReady(replica, PATIENCE);
    return replica.url;
  };
  const [next, codes] = [await start(IMAGE), await start(CODES_IMAGE)];
  await passkeysBesideCodes(t, { codes, next, databaseUrl });
});

function sourcesOf(t: Test, commit: string): string {
  const folder = join(testFolder(t), commit);
  for (const words of [
    ['clone', '--quiet', ROOT, folder],
    ['-C', folder, 'checkout', '--quiet', commit],
  ]) {
    const { status, stderr } = spawnSync('git', words, { encoding: 'utf8' });
    if (status !== 0) throw new Error(`${stderr}Does the history reach back to ${commit}?`);
  }
  return folder;
}

/** A million live sessions: a migration that reads or rewrites every row holds up the clients. */
async function fill(databaseUrl: string): Promise<void> {
  await sql(
    databaseUrl,
    `INSERT INTO users (username, username_skeleton, email, name, password_hash)
     SELECT 'user-' || n, 'user-' || n, n || '@example.com', 'Ada', '' FROM generate_series(1, 100000) AS n`,
  );
  await sql(
    databaseUrl,
    `INSERT INTO tokens (user_id, type, name, created_at, latest, first)
     SELECT id, 'session', 'a device', now(), micros, micros FROM users, generate_series(1, 10),
       (SELECT (extract(epoch FROM now()) * 1e6)::bigint) AS time(micros)`,
  );
}
