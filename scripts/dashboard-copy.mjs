// `node scripts/dashboard-copy.mjs` copies the dashboard into k8s/, because kustomize reads no file outside its folder. The
// copy has no whitespace, because `kubectl apply` repeats it in an annotation. `--print` prints it; a test compares the two.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
const dashboard = JSON.parse(readFileSync(join(root, 'deploy/grafana/latchkey.json'), 'utf8'));
const copy = `${JSON.stringify(dashboard)}\n`;

if (process.argv.includes('--print')) process.stdout.write(copy);
else writeFileSync(join(root, 'k8s/components/monitoring/dashboard.json'), copy);
