/** The parts that share a request's time, in the order of tables and charts. */
export const PARTS = [
  'Node: reading requests',
  'Node: writing answers',
  'Fastify',
  'our HTTP layer',
  'tokens: signatures and claims',
  'use cases',
  'Redis client',
  'PostgreSQL client',
  'logs, metrics and traces',
  'garbage collection',
  'other',
] as const;

export type Part = (typeof PARTS)[number];

/** A profile as `node --cpu-prof` writes it. Times in microseconds of the machine's monotonic clock. */
export interface CpuProfile {
  nodes: {
    id: number;
    callFrame: { functionName: string; url: string };
    children?: number[];
  }[];
  startTime: number;
  samples: number[];
  timeDeltas: number[];
}

/** The first rule that matches a frame or one of its callers decides. Frames without a rule work for their caller. */
const RULES: readonly [RegExp, Part][] = [
  [/^\(garbage collector\)/, 'garbage collection'],
  [/node_modules\/ioredis\/|\/src\/infra\/(redis|memory)\//, 'Redis client'],
  [/node_modules\/(@prisma\/|pg)|\/src\/(infra\/postgres|generated)\//, 'PostgreSQL client'],
  [
    /node_modules\/(pino|@opentelemetry)|\/src\/(telemetry|runtime|infra\/(metrics|audit|tracing))\//,
    'logs, metrics and traces',
  ],
  [/request-log\.js/, 'logs, metrics and traces'],
  [
    /node_modules\/(fast-jwt|@fastify\/jwt|asn1\.js|ecdsa-sig-formatter)\/|(token-codec|verified-credentials|identity-packing|claims|caller-hash)\.js| node:internal\/crypto\//,
    'tokens: signatures and claims',
  ],
  [
    /one-write-response\.js| node:_http_outgoing| (resOnFinish|detachSocket|assignSocket|writeHead|_writeHead) /,
    'Node: writing answers',
  ],
  [/ node:_http_(server|incoming|common)/, 'Node: reading requests'],
  [/node_modules\/(fastify|find-my-way|@fastify|avvio|fast-json-stringify|light-my-request)\//, 'Fastify'],
  [/\/src\/(http|app)/, 'our HTTP layer'],
  [/\/src\/(domain|composition)\//, 'use cases'],
];

/**
 * Divides the time of a profile among the parts.
 * @param span begin and end of the load, in microseconds of the machine's monotonic clock: start-up is not a request.
 * @returns shares of the busy time, which add up to 1.
 */
export function sharesOfParts(profile: CpuProfile, span: { from: number; to: number }): Record<Part, number> {
  const partOf = makePartOf(profile);
  const times = Object.fromEntries(PARTS.map((part) => [part, 0])) as Record<Part, number>;
  let at = profile.startTime;
  let busy = 0;
  for (const [i, id] of profile.samples.entries()) {
    const micros = profile.timeDeltas[i] ?? 0;
    at += micros;
    const part = at >= span.from && at <= span.to ? partOf(id) : null;
    if (part === null) continue;
    times[part] += micros;
    busy += micros;
  }
  if (busy === 0) throw new Error('the profile has no sample in the time of the load');
  for (const part of PARTS) times[part] /= busy;
  return times;
}

/** @returns null for an idle process. */
function makePartOf({ nodes }: CpuProfile): (id: number) => Part | null {
  const frames = new Map(nodes.map((node) => [node.id, node]));
  const callers = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
  const known = new Map<number, Part | null>();

  function find(id: number): Part | null {
    const { functionName, url } = frames.get(id)?.callFrame ?? { functionName: '', url: '' };
    if (functionName === '(idle)') return null;
    const [, part] = RULES.find(([pattern]) => pattern.test(`${functionName} ${url}`)) ?? [];
    if (part) return part;
    const caller = callers.get(id);
    return caller === undefined ? 'other' : partOf(caller);
  }

  function partOf(id: number): Part | null {
    const found = known.get(id);
    if (found !== undefined) return found;
    const part = find(id);
    known.set(id, part);
    return part;
  }
  return partOf;
}
