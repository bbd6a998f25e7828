import {
  allOf,
  selects,
  workloadsOf,
  type Container,
  type Kinds,
  type Manifest,
  type Selector,
  type Workload,
} from './kinds.ts';

/** The broken rules for everything that we run in a cluster; [] if none. */
export function violations(manifests: Manifest[]): string[] {
  const workloads = workloadsOf(manifests);
  return [
    ...workloads.flatMap((workload) => [
      ...podProblems(workload),
      ...containersOf(workload).flatMap((container) => containerProblems(workload, container)),
      ...configMapProblems(workload, manifests),
    ]),
    ...selectorsOf(manifests).flatMap(([name, selector]) => selectorProblems(name, selector, workloads)),
    ...allOf(manifests, 'HorizontalPodAutoscaler').flatMap(({ spec }) =>
      broken('HorizontalPodAutoscaler', [
        ['scales what exists', workloads.some(({ name }) => name === spec.scaleTargetRef.name)],
      ]),
    ),
    ...allOf(manifests, 'Ingress').flatMap((ingress) => ingressProblems(ingress, manifests)),
    ...allOf(manifests, 'HTTPRoute').flatMap((route) => routeProblems(route, manifests)),
    ...allOf(manifests, 'NetworkPolicy').flatMap(({ metadata, spec }) =>
      broken(`NetworkPolicy ${metadata.name}`, [
        ['names destinations', (spec.egress ?? []).every(({ to = [] }) => to.length > 0)],
      ]),
    ),
    ...allOf(manifests, 'Secret').map(({ metadata }) => `Secret ${metadata.name}: is in no manifest`),
  ];
}

/** The texts of the broken rules. */
function broken(where: string, rules: [rule: string, holds: boolean][]): string[] {
  return rules.filter(([, holds]) => !holds).map(([rule]) => `${where}: ${rule}`);
}

function containersOf({ template }: Workload): Container[] {
  const { containers, initContainers = [] } = template.spec;
  return [...containers, ...initContainers];
}

const VOLUMES = ['name', 'secret', 'configMap', 'emptyDir'];

/** The restricted pod security standard for pods, and our own rules. */
function podProblems({ kind, name, template: { spec }, job }: Workload): string[] {
  const { securityContext = {}, volumes = [] } = spec;
  return broken(`${kind} ${name}`, [
    ['runs as no root', securityContext.runAsNonRoot === true && (securityContext.runAsUser ?? 0) > 0],
    ['has seccomp', securityContext.seccompProfile?.type === 'RuntimeDefault'],
    ['has nothing of its host', !spec.hostNetwork && !spec.hostPID && !spec.hostIPC],
    ['mounts no token', spec.automountServiceAccountToken === false],
    ['gets no variables of other Services', spec.enableServiceLinks === false],
    [
      'mounts no folder of its host',
      volumes.every((volume) => Object.keys(volume).every((key) => VOLUMES.includes(key))),
    ],
    ['keeps nothing', name !== 'latchkey' || volumes.every((volume) => volume.secret)],
    ['is not tried for ever', !job || (job.backoffLimit <= 3 && spec.restartPolicy === 'Never')],
  ]);
}

function containerProblems({ kind, name, job }: Workload, container: Container): string[] {
  const { image, resources, securityContext = {}, env = [], envFrom = [], volumeMounts = [] } = container;
  const { requests = {}, limits = {} } = resources ?? {};
  const { capabilities = {} } = securityContext;
  const [, repository = '', tag = '', digest = ''] = /^([^@]*?)(?::([^:/@]+))?(?:@(.*))?$/.exec(image) ?? [];
  return broken(`${kind} ${name}, ${container.name}`, [
    ['has a tag that says which', /\d+\.\d+/.test(tag)],
    // Ours is built after this commit.
    ['has a digest', /(^|\/)latchkey$/.test(repository) || /^sha256:[0-9a-f]{64}$/.test(digest)],
    ['asks for CPU and memory', requests.cpu !== undefined && requests.memory !== undefined],
    ['asks for room for its log', requests['ephemeral-storage'] === '64Mi'],
    [
      'is bounded in memory to what it asks for',
      limits.memory !== undefined && limits.memory === requests.memory,
    ],
    ['is not throttled', limits.cpu === undefined],
    ['is probed', job !== null || (!!container.readinessProbe && !!container.livenessProbe)],
    ['gains no rights', securityContext.allowPrivilegeEscalation === false && !securityContext.privileged],
    ['writes nothing to its root', securityContext.readOnlyRootFilesystem === true],
    ['has no capabilities', capabilities.drop?.includes('ALL') === true && capabilities.add === undefined],
    [
      'has no secret in a variable',
      env.every(({ valueFrom }) => !valueFrom) && envFrom.every(({ secretRef }) => !secretRef),
    ],
    ['has whole volumes', volumeMounts.every(({ subPath }) => subPath === undefined)],
  ]);
}

function configMapProblems({ kind, name, template }: Workload, manifests: Manifest[]): string[] {
  const { containers, volumes = [] } = template.spec;
  const wanted = [
    ...containers.flatMap(({ envFrom = [] }) => envFrom.map(({ configMapRef }) => configMapRef?.name)),
    ...volumes.map(({ configMap }) => configMap?.name),
  ];
  const there = allOf(manifests, 'ConfigMap').map(({ metadata }) => metadata.name);
  return broken(`${kind} ${name}`, [
    ['reads ConfigMaps that exist', wanted.every((it) => it === undefined || there.includes(it))],
  ]);
}

/** Resources that select pods, except policies. */
function selectorsOf(manifests: Manifest[]): [name: string, selector: Selector][] {
  return [
    ...allOf(manifests, 'Service').map(({ kind, metadata, spec }): [string, Selector] => [
      `${kind} ${metadata.name}`,
      { matchLabels: spec.selector },
    ]),
    ...(['Deployment', 'StatefulSet', 'PodDisruptionBudget'] as const).flatMap((kind) =>
      allOf(manifests, kind).map((it): [string, Selector] => [
        `${kind} ${it.metadata.name}`,
        it.spec.selector,
      ]),
    ),
    ...workloadsOf(manifests).flatMap(({ kind, name, template }) =>
      (template.spec.topologySpreadConstraints ?? []).map((it): [string, Selector] => [
        `${kind} ${name}`,
        it.labelSelector,
      ]),
    ),
  ];
}

/** A selector must match the pods of one workload. A workload's own selector must match its own pods. */
function selectorProblems(where: string, selector: Selector, workloads: Workload[]): string[] {
  const selected = workloads.filter(({ template }) => selects(selector, template.metadata.labels));
  const own = workloads.filter(({ kind, name }) => `${kind} ${name}` === where);
  return broken(where, [
    ['selects the pods of one workload', selected.length === 1],
    ['selects its own pods', own.length === 0 || own[0] === selected[0]],
  ]);
}

/** Outside clients reach only the API, over TLS. */
function ingressProblems({ metadata, spec }: Kinds['Ingress'], manifests: Manifest[]): string[] {
  const backends = spec.rules.flatMap(({ http }) => http.paths.map(({ backend }) => backend.service));
  const secured = (spec.tls ?? []).flatMap(({ hosts }) => hosts);
  const services = allOf(manifests, 'Service');
  const exists = ({ name, port }: (typeof backends)[number]) =>
    services.some((it) => it.metadata.name === name && it.spec.ports.some((its) => its.name === port.name));
  return broken(`Ingress ${metadata.name}`, [
    ['leads to the API only', backends.every(({ port }) => port.name === 'api')],
    ['leads to what exists', backends.every(exists)],
    ['is for any controller', spec.ingressClassName === undefined && metadata.annotations === undefined],
    ['has TLS', spec.rules.every(({ host }) => host !== undefined && secured.includes(host))],
  ]);
}

/** The same for routes of the Gateway API, whose Gateway holds the certificate. */
function routeProblems({ metadata, spec }: Kinds['HTTPRoute'], manifests: Manifest[]): string[] {
  const backends = spec.rules.flatMap(({ backendRefs }) => backendRefs);
  const portsOf = ({ name, port }: (typeof backends)[number]) =>
    allOf(manifests, 'Service')
      .filter((it) => it.metadata.name === name)
      .flatMap((it) => it.spec.ports.filter((its) => its.port === port));
  return broken(`HTTPRoute ${metadata.name}`, [
    ['leads to what exists', backends.every((backend) => portsOf(backend).length === 1)],
    ['leads to the API only', backends.flatMap(portsOf).every(({ name }) => name === 'api')],
    ['has TLS', spec.parentRefs.every(({ sectionName }) => sectionName === 'https')],
    ['takes one host only', spec.hostnames?.length === 1],
  ]);
}
