import { FIELD_GROUPS, FIELDS } from '../../src/config/fields.ts';
import type { Description } from '../../src/config/field-kinds.ts';
import { formatted } from './formatted.ts';

const INTRODUCTION = `<!-- Written by \`npm run docs\` from src/config/fields.ts. -->

# Configuration

You configure Latchkey by environment variables, which it reads once, when it starts. It lists all
mistakes at once, and \`npx latchkey doctor\` also checks the stores that they name.

- Give any variable as a file instead: \`NAME_FILE\` is the path of a file that holds the value.
- White space and a byte order mark around a variable, and around the value in a file, do not count.
- Separate the items of a list by commas.
- With \`NODE_ENV=production\` the service does not start without the variables that are required.
  Elsewhere, embedded defaults replace them.
`;

const CLOSING = `The SDK of OpenTelemetry also reads its other variables, among them
\`OTEL_SERVICE_NAME\`, \`OTEL_RESOURCE_ATTRIBUTES\`, \`OTEL_TRACES_SAMPLER\` and \`OTEL_BSP_*\`.
`;

const PROXIES = `## A proxy to the internet

Latchkey makes requests of its own only to [issuers of workloads](workload-identity.md) and to the
collector of traces. If they are reached through a proxy, set the variables that Node itself reads:

\`\`\`sh
NODE_USE_ENV_PROXY=1
HTTPS_PROXY=http://proxy.internal:3128
NO_PROXY=.svc,.cluster.local,collector.internal
\`\`\`

Node 24, which the image has, honours them; Node 20 ignores them. The proxy gets a CONNECT request
for the issuer's host and port, so TLS stays between Latchkey and the issuer. If the proxy ends TLS,
give its CA as \`NODE_EXTRA_CA_CERTS\`. PostgreSQL and Redis are never reached through it. In
Kubernetes, set the variables in \`extraEnv\` of the chart, and allow the proxy in
\`networkPolicy.extraEgress\`.
`;

const WAITING = Object.entries<Description>(FIELDS)
  .filter(([, { waits }]) => waits)
  .map(([name]) => `\`${name}\``);

const WAITS = `- ${WAITING.slice(0, -1).join(', ')} and ${WAITING.at(-1)} wait until
  [no replica of the release before is left](upgrading.md#after), which knows nothing of them.
`;

/** The text of docs/configuration.md. */
export async function configurationDocument(): Promise<string> {
  const parts = Object.entries(FIELD_GROUPS).map(([title, fields]) => `## ${title}\n\n${tableOf(fields)}\n`);
  return formatted('configuration.md', [INTRODUCTION + WAITS, ...parts, CLOSING, PROXIES].join('\n'));
}

function tableOf(fields: Readonly<Record<string, Description>>): string {
  const rows = Object.entries(fields).map(([name, { type, defaultText, required, meaning }]) =>
    [
      `\`${name}\``,
      type,
      isInWords(defaultText) ? defaultText : `\`${defaultText}\``,
      required ? 'yes' : '',
      meaning,
    ].join(' | '),
  );
  return ['variable | type and unit | default | required | meaning', '--- | --- | --- | --- | ---', ...rows]
    .map((row) => `| ${row} |`)
    .join('\n');
}

function isInWords(defaultText: string): boolean {
  return defaultText === 'none' || defaultText.includes(' ');
}
