import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import type { Test } from 'tap';
import { EntrySchema } from '../../src/domain/audit/entry.ts';
import { EVENTS, type Definition, type EventName } from '../../src/domain/audit/event.ts';
import { ENVELOPE_FIELDS, snakeCase } from '../../src/domain/audit/to-entry.ts';

interface FieldSchema {
  type?: string;
  description?: string;
  examples?: readonly unknown[];
}

/** The details of an event, by their names in a line. */
export function detailsOf(name: EventName): Record<string, FieldSchema & { isOptional: boolean }> {
  const { fields }: Definition = EVENTS[name];
  const details = Object.entries(fields.properties as Record<string, FieldSchema>)
    .filter(([field]) => !ENVELOPE_FIELDS.includes(field))
    .map(([field, schema]) => {
      const isOptional = !((fields.required as string[] | undefined) ?? []).includes(field);
      return [snakeCase(field), { ...schema, isOptional }] as const;
    });
  const lists = details.filter(([, { type }]) => type === 'array');
  const counts = lists.map(
    () =>
      [
        'count',
        { type: 'integer', description: 'How many ended in all', examples: [2], isOptional: false },
      ] as const,
  );
  const all: (readonly [string, FieldSchema & { isOptional: boolean }])[] = [...details, ...counts];
  return Object.fromEntries(all);
}

function schemaOf(name: EventName): object {
  const { severity, outcome }: Definition = EVENTS[name];
  const details = detailsOf(name);
  return {
    allOf: [
      EntrySchema,
      {
        properties: {
          event: { const: name },
          severity: { const: severity },
          ...(outcome && { outcome: { const: outcome } }),
          details: {
            type: 'object',
            additionalProperties: false,
            properties: Object.fromEntries(
              Object.entries(details).map(([field, { isOptional: _, ...schema }]) => [field, schema]),
            ),
            required: Object.keys(details).filter((field) => !details[field]?.isOptional),
          },
        },
      },
    ],
  };
}

const ajv = new Ajv({ strict: false, allErrors: true });
(addFormats as unknown as (ajv: Ajv) => void)(ajv);
const validators = new Map(
  (Object.keys(EVENTS) as EventName[]).map((name) => [name as string, ajv.compile(schemaOf(name))]),
);

/** The differences between a line and the schema of its event; empty for a good line. */
export function problemsOf(line: Record<string, unknown>): string[] {
  const validate = validators.get(String(line.event));
  if (!validate) return [`no event is named ${String(line.event)}`];
  if (validate(line)) return [];
  return (validate.errors ?? []).map(
    ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
  );
}

/** Every line of the trail is as documented. */
export function assertDocumented(t: Test, lines: readonly Record<string, unknown>[]): void {
  for (const line of lines) t.strictSame(problemsOf(line), [], JSON.stringify(line));
}
