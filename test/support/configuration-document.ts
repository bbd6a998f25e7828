import { FIELD_GROUPS } from '../../src/config/fields.ts';
import type { Description } from '../../src/config/field-kinds.ts';
import { formatted } from './formatted.ts';

const INTRODUCTION = `# Configuration

This file is generated from the configuration schema. Change the schema, then run \`npm run docs\`.

Latchkey reads environment variables once, at the start, and reports all problems at once. Each
variable can also be given as \`NAME_FILE\`, the path of a file that holds the value.
\`npx latchkey doctor\` checks the configuration and the stores that it names.

If \`NODE_ENV\` is \`production\`, the service refuses to start without the variables marked as
required. Elsewhere the embedded defaults replace them. Lists are comma-separated.
`;

const CLOSING = `The SDK of OpenTelemetry also reads its other variables, such as
\`OTEL_SERVICE_NAME\`, \`OTEL_RESOURCE_ATTRIBUTES\`, \`OTEL_TRACES_SAMPLER\` and \`OTEL_BSP_*\`.
`;

/** The text of docs/configuration.md. */
export async function configurationDocument(): Promise<string> {
  const parts = Object.entries(FIELD_GROUPS).map(([title, fields]) => `## ${title}\n\n${tableOf(fields)}\n`);
  return formatted('configuration.md', [INTRODUCTION, ...parts, CLOSING].join('\n'));
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
