import { test } from 'tap';
import { buildOpsApp } from '../../../src/app.ts';
import { buildTestApp } from '../../support/app.ts';
import { valueOf } from '../../support/exposition.ts';

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
