// `node scripts/prometheus-rule.mjs` writes the PrometheusRule of k8s/ from deploy/prometheus/rules.yaml, because kustomize
// cannot put a file into a resource, and copies the rules into the chart, because helm reads no file outside its folder.
// `--print` prints the PrometheusRule; tests compare both.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
const rules = readFileSync(join(root, 'deploy/prometheus/rules.yaml'), 'utf8');
const resource = `# Made from deploy/prometheus/rules.yaml by \`node scripts/prometheus-rule.mjs\`.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: latchkey
  labels:
    app.kubernetes.io/name: latchkey
spec:
${rules.replace(/^---\n/, '').replace(/^(?=.)/gm, '  ')}`;

if (process.argv.includes('--print')) process.stdout.write(resource);
else {
  writeFileSync(join(root, 'k8s/components/monitoring/prometheus-rule.yaml'), resource);
  writeFileSync(join(root, 'charts/latchkey/files/rules.yaml'), rules);
}
