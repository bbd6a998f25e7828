// The parts of manifests that tests read. strict.ts checks the manifests against Kubernetes' full types.

export type Labels = Record<string, string>;

export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Labels; annotations?: Labels };
}

export interface Selector {
  matchLabels?: Labels;
  matchExpressions?: { key: string; operator: string; values: string[] }[];
}

export interface Probe {
  httpGet?: { path: string; port: string };
  periodSeconds: number;
  failureThreshold?: number;
}

export interface Resources {
  requests?: { cpu?: string; memory?: string; 'ephemeral-storage'?: string };
  limits?: { cpu?: string; memory?: string };
}

export interface Container {
  name: string;
  image: string;
  command?: string[];
  args?: string[];
  ports?: { name: string; containerPort: number }[];
  env?: { name: string; value?: string; valueFrom?: object }[];
  envFrom?: { configMapRef?: { name: string }; secretRef?: { name: string } }[];
  volumeMounts?: { name: string; mountPath: string; readOnly?: boolean; subPath?: string }[];
  lifecycle?: { preStop: { sleep: { seconds: number } } };
  startupProbe?: Probe;
  readinessProbe?: Probe;
  livenessProbe?: Probe;
  resources?: Resources;
  imagePullPolicy?: string;
  /** Of a native sidecar. */
  restartPolicy?: string;
  securityContext?: {
    allowPrivilegeEscalation?: boolean;
    privileged?: boolean;
    readOnlyRootFilesystem?: boolean;
    capabilities?: { add?: string[]; drop?: string[] };
  };
}

export interface Volume {
  name: string;
  secret?: { secretName: string; items?: { key: string; path: string }[] };
  configMap?: { name: string };
  emptyDir?: object;
  hostPath?: { path: string };
  projected?: { sources: { serviceAccountToken?: { path: string; audience: string } }[] };
}

export interface PodSpec {
  containers: Container[];
  initContainers?: Container[];
  imagePullSecrets?: { name: string }[];
  hostAliases?: object[];
  dnsConfig?: object;
  volumes?: Volume[];
  securityContext?: { runAsNonRoot?: boolean; runAsUser?: number; seccompProfile?: { type: string } };
  hostNetwork?: boolean;
  hostPID?: boolean;
  hostIPC?: boolean;
  restartPolicy?: string;
  serviceAccountName?: string;
  automountServiceAccountToken?: boolean;
  enableServiceLinks?: boolean;
  terminationGracePeriodSeconds?: number;
  topologySpreadConstraints?: {
    topologyKey: string;
    whenUnsatisfiable: string;
    nodeTaintsPolicy?: string;
    labelSelector: Selector;
  }[];
}

export interface PodTemplate {
  metadata: { labels: Labels; annotations?: Labels };
  spec: PodSpec;
}

export interface JobSpec {
  backoffLimit: number;
  activeDeadlineSeconds?: number;
  template: PodTemplate;
}

interface ScalingRules {
  stabilizationWindowSeconds: number;
  policies: { type: string; value: number; periodSeconds: number }[];
}

export interface NetworkRule {
  from?: NetworkPeer[];
  to?: NetworkPeer[];
  ports?: { port: number | string; protocol?: string }[];
}

export interface NetworkPeer {
  ipBlock?: { cidr: string; except?: string[] };
  podSelector?: Selector;
  namespaceSelector?: Selector;
}

interface IngressPath {
  path: string;
  pathType: string;
  backend: { service: { name: string; port: { name: string } } };
}

interface Specs {
  Deployment: {
    replicas?: number;
    selector: Selector;
    minReadySeconds: number;
    strategy: { type: string; rollingUpdate: { maxSurge: number; maxUnavailable: number } };
    template: PodTemplate;
  };
  StatefulSet: { selector: Selector; template: PodTemplate };
  Job: JobSpec;
  CronJob: { suspend?: boolean; concurrencyPolicy: string; jobTemplate: { spec: JobSpec } };
  Service: { type?: string; selector: Labels; ports: { name: string; port: number; targetPort: string }[] };
  PodDisruptionBudget: { selector: Selector; maxUnavailable: number };
  HorizontalPodAutoscaler: {
    scaleTargetRef: { name: string };
    minReplicas: number;
    maxReplicas: number;
    metrics: { type: string }[];
    behavior: { scaleUp: ScalingRules; scaleDown: ScalingRules };
  };
  NetworkPolicy: {
    podSelector: Selector;
    policyTypes: string[];
    ingress?: NetworkRule[];
    egress?: NetworkRule[];
  };
  Ingress: {
    ingressClassName?: string;
    rules: {
      host?: string;
      http: { paths: IngressPath[] };
    }[];
    tls?: { hosts: string[]; secretName?: string }[];
  };
  HTTPRoute: {
    parentRefs: { name: string; namespace?: string; sectionName?: string }[];
    hostnames?: string[];
    rules: {
      matches: { path: { type: string; value: string } }[];
      timeouts?: { request: string };
      backendRefs: { name: string; port: number }[];
    }[];
  };
  ServiceMonitor: { jobLabel: string; selector: Selector; endpoints: { port: string; path: string }[] };
  PrometheusRule: { groups: { name: string; rules: object[] }[] };
}

export type Kinds = { [Kind in keyof Specs]: Manifest & { kind: Kind; spec: Specs[Kind] } } & {
  ConfigMap: Manifest & { data: Record<string, string> };
  Secret: Manifest & { data: Record<string, string> };
};

/** All of a kind. */
export function allOf<Kind extends keyof Kinds>(manifests: Manifest[], kind: Kind): Kinds[Kind][] {
  return manifests.filter((manifest): manifest is Kinds[Kind] => manifest.kind === kind);
}

/** The only one of its kind, or of its kind and name. */
export function only<Kind extends keyof Kinds>(
  manifests: Manifest[],
  kind: Kind,
  name?: string,
): Kinds[Kind] {
  const all = allOf(manifests, kind).filter(({ metadata }) => name === undefined || metadata.name === name);
  const [found, ...others] = all;
  if (!found || others.length > 0) throw new Error(`not one ${kind} ${name ?? ''}, but ${all.length}`);
  return found;
}

/** The variables that the service's pods get from their ConfigMap. */
export function variablesOf(manifests: Manifest[]): Record<string, string> {
  const { containers } = only(manifests, 'Deployment', 'latchkey').spec.template.spec;
  const names = containers.flatMap(({ envFrom = [] }) =>
    envFrom.map(({ configMapRef }) => configMapRef?.name),
  );
  return only(manifests, 'ConfigMap', names[0]).data;
}

/** The workloads, with their pod templates. */
export interface Workload {
  name: string;
  kind: string;
  template: PodTemplate;
  /** Of Jobs, which end. */
  job: JobSpec | null;
}

export function workloadsOf(manifests: Manifest[]): Workload[] {
  const serving = [...allOf(manifests, 'Deployment'), ...allOf(manifests, 'StatefulSet')];
  const jobs = [
    ...allOf(manifests, 'Job').map(({ kind, metadata, spec }) => ({ kind, metadata, job: spec })),
    ...allOf(manifests, 'CronJob').map(({ kind, metadata, spec }) => ({
      kind,
      metadata,
      job: spec.jobTemplate.spec,
    })),
  ];
  return [
    ...serving.map((it) => ({
      name: it.metadata.name,
      kind: it.kind,
      template: it.spec.template,
      job: null,
    })),
    ...jobs.map(({ kind, metadata, job }) => ({ name: metadata.name, kind, template: job.template, job })),
  ];
}

/** Whether a selector takes a pod with these labels. */
export function selects({ matchLabels = {}, matchExpressions = [] }: Selector, labels: Labels = {}): boolean {
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(({ key, operator, values }) => {
      if (operator !== 'In') throw new Error(`the operator ${operator} is not known here`);
      return values.includes(labels[key] ?? '');
    })
  );
}
