import { test } from 'tap';
import { buildOpsApp } from '../../../src/app.ts';
import { buildTestApp } from '../../support/app.ts';
import { valueOf } from '../../support/exposition.ts';
import { refused } from '../../support/problem.ts';

test('readiness and the metrics say which build runs', async (t) => {
  const { composition } = await buildTestApp(t);
  const build = { version: '1.2.3', revision: 'a1' };
  const ops = await buildOpsApp({ ...composition.ops, build });
  t.teardown(() => ops.close());
  t.match((await ops.inject('/health/ready')).json(), { status: 'ready', ...build });
  t.equal(
    valueOf(await composition.ops.metrics(), 'latchkey_build_info', {
      ...composition.ops.build,
      node: process.versions.node,
    }),
    1,
  );
});

test('the 404 of the ops port names its paths', async (t) => {
  const { composition } = await buildTestApp(t);
  const ops = await buildOpsApp(composition.ops);
  t.teardown(() => ops.close());
  const response = await ops.inject('/');
  refused(t, response, 404, 'not_found');
  const { detail } = response.json<{ detail: string }>();
  const paths = detail.match(/\/[a-z/-]+/g) ?? [];
  t.equal(paths.length, 4);
  for (const path of paths) t.equal((await ops.inject(path)).statusCode, 200, path);
});
