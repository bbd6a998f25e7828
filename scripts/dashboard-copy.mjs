// `node scripts/dashboard-copy.mjs` copies the dashboard into k8s/ and the chart, because kustomize and helm read no file
// outside their folders. The copy has no whitespace, because `kubectl apply` repeats it in an annotation. `--print` prints
// it; tests compare both.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
const dashboard = JSON.parse(readFileSync(join(root, 'deploy/grafana/latchkey.json'), 'utf8'));
const copy = `${JSON.stringify(dashboard)}\n`;

if (process.argv.includes('--print')) process.stdout.write(copy);
else
  for (const path of ['k8s/components/monitoring', 'charts/latchkey/files'])
    writeFileSync(join(root, path, 'dashboard.json'), copy);
