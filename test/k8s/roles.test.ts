import { dirname } from 'node:path';
import { test } from 'tap';
import { toolsMissing } from '../support/tools.ts';
import { workloadsOf } from './kinds.ts';
import { render } from './render.ts';

const skip = toolsMissing('kubectl');

test('only the migration and operators’ commands get the owner’s URL', { skip }, (t) => {
  const owners = workloadsOf(render('k8s/overlays/production')).flatMap(({ name, template }) => {
    const { containers, volumes = [] } = template.spec;
    const mounted = volumes.some(({ secret }) => secret?.secretName === 'latchkey-owner');
    const [{ env = [] } = {}] = containers;
    const url = env.find((each) => each.name === 'DATABASE_URL_FILE')?.value;
    t.equal(url, `/run/secrets/${mounted ? 'latchkey-owner' : 'latchkey'}/database-url`, name);
    return mounted ? [name] : [];
  });
  t.strictSame(owners.sort(), ['latchkey-admin', 'latchkey-migrate']);
  t.end();
});

test('the service and every Job read the CA of PostgreSQL beside its URL', { skip }, (t) => {
  for (const { name, template } of workloadsOf(render('k8s/overlays/production'))) {
    const { containers, volumes = [] } = template.spec;
    const [{ env = [], volumeMounts = [] } = {}] = containers;
    const fileOf = (variable: string) => env.find((each) => each.name === variable)?.value ?? '';
    const folder = dirname(fileOf('DATABASE_URL_FILE'));
    t.equal(fileOf('DATABASE_CA_FILE'), `${folder}/database-ca`, name);
    const mount = volumeMounts.find(({ mountPath }) => mountPath === folder);
    const items = volumes.find((each) => each.name === mount?.name)?.secret?.items;
    t.ok(items === undefined || items.some(({ path }) => path === 'database-ca'), `${name} mounts it`);
  }
  t.end();
});
