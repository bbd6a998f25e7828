import { test } from 'tap';
import { ALL_PATHS, PUBLIC_PATHS, SERVICE_PATHS } from '../support/public-paths.ts';
import { toolsMissing } from '../support/tools.ts';
import { only, type Manifest } from './kinds.ts';
import { render, renderWith } from './render.ts';

const skip = toolsMissing('kubectl');
const FEED = '/api/auth/revocations';

interface Rule {
  type: string;
  value: string;
  /** Of the request; of an HTTPRoute only. */
  timeout?: string | undefined;
}

test(
  'the Gateway’s and the Ingress’ routes open the public paths only, as every proxy does',
  { skip },
  (t) => {
    const gateway = rulesOf(renderWith(t, 'k8s/base', ['gateway']), 'latchkey');
    for (const rules of [gateway, rulesOf(render('k8s/overlays/production'), 'latchkey')]) {
      t.strictSame(opened(rules), PUBLIC_PATHS);
      t.equal(rules.find(({ type, value }) => type === 'Exact' && value === FEED)?.timeout, '0s');
    }
    const { rules } = only(renderWith(t, 'k8s/base', ['ingress']), 'Ingress').spec;
    const paths = rules.flatMap(({ http }) => http.paths);
    t.strictSame(opened(paths.map(({ path, pathType }) => ({ type: pathType, value: path }))), PUBLIC_PATHS);
    t.end();
  },
);

test('services outside the cluster have a route of their own, on another Gateway', { skip }, (t) => {
  const manifests = renderWith(t, 'k8s/overlays/production', ['gateway-internal']);
  const rules = rulesOf(manifests, 'latchkey-internal');
  t.strictSame(opened(rules), SERVICE_PATHS);
  t.equal(rules.find(({ type, value }) => type === 'Exact' && value === FEED)?.timeout, '0s');
  const [own, open] = ['latchkey-internal', 'latchkey'].map(
    (name) => only(manifests, 'HTTPRoute', name).spec,
  );
  t.not(own?.parentRefs[0]?.name, open?.parentRefs[0]?.name);
  t.not(own?.hostnames?.[0], open?.hostnames?.[0]);
  t.end();
});

function rulesOf(manifests: Manifest[], name: string): Rule[] {
  return only(manifests, 'HTTPRoute', name).spec.rules.flatMap(({ matches, timeouts }) =>
    matches.map(({ path }) => ({ ...path, timeout: timeouts?.request })),
  );
}

function opened(rules: Rule[]): string[] {
  return ALL_PATHS.filter((path) => rules.some((rule) => isMatch(rule, path)));
}

/** A prefix takes whole segments, in an HTTPRoute and in an Ingress. */
function isMatch({ type, value }: Rule, path: string): boolean {
  if (type === 'Exact') return path === value;
  if (!['PathPrefix', 'Prefix'].includes(type)) throw new Error(`unknown type ${type}`);
  return `${path}/`.startsWith(`${value.replace(/\/$/, '')}/`);
}
