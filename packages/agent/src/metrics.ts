import type { VerifierError } from '@latchkey/verifier';

export type Metrics = ReturnType<typeof makeMetrics>;

export function makeMetrics() {
  const checks = new Map([['outcome="good",reason=""', 0]]);
  const requests = new Map<string, number>();
  const add = (counts: Map<string, number>, labels: string) =>
    counts.set(labels, (counts.get(labels) ?? 0) + 1);

  return {
    /** @param refusal null if the token is good */
    checked(refusal: VerifierError | null) {
      const outcome = refusal ? (refusal.code === 'unavailable' ? 'unavailable' : 'refused') : 'good';
      add(checks, `outcome="${outcome}",reason="${refusal?.reason ?? ''}"`);
    },
    /** @param path of Latchkey. @param outcome the answer's status, or `failed` if there was none */
    requested: (path: string, outcome: string) => add(requests, `path="${path}",outcome="${outcome}"`),
    /** The Prometheus text format, version 0.0.4. @param staleness seconds; Infinity before the first revocations */
    exposition: (isReady: boolean, staleness: number, cachedTokens: number) =>
      [
        counter('checks_total', 'Tokens that were checked', checks),
        counter('latchkey_requests_total', 'Requests to Latchkey', requests),
        gauge('ready', 'Whether keys and revocations have been loaded', Number(isReady)),
        gauge('feed_age_seconds', 'Since the feed confirmed that no revocation is missing', staleness),
        gauge('cached_tokens', 'Tokens whose signature is not checked again', cachedTokens),
      ].join(''),
  };
}

function counter(name: string, help: string, counts: ReadonlyMap<string, number>): string {
  const lines = [...counts].map(([labels, count]) => `latchkey_agent_${name}{${labels}} ${count}\n`);
  return head(name, help, 'counter') + lines.join('');
}

function gauge(name: string, help: string, value: number): string {
  const text = value === Infinity ? '+Inf' : String(value);
  return `${head(name, help, 'gauge')}latchkey_agent_${name} ${text}\n`;
}

function head(name: string, help: string, type: string): string {
  return `# HELP latchkey_agent_${name} ${help}\n# TYPE latchkey_agent_${name} ${type}\n`;
}
