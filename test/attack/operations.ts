import { readFileSync } from 'node:fs';
import type { JsonObject } from '../../src/http/openapi/json.ts';
import { resolve, type Document, type JsonSchema } from '../support/openapi.ts';

const DOCUMENT = JSON.parse(
  readFileSync(new URL('../../../docs/openapi.json', import.meta.url), 'utf8'),
) as Document;

/** The id of a process that reads the feed. */
export const A_READER = 'a-reader-of-the-feed';

/** An operation of the reference, with a valid request. New operations are attacked without a change here. */
export interface Attacked {
  name: string;
  method: string;
  path: string;
  /** The path with the names of its parameters, as in the reference. */
  template: string;
  /** Names of security schemes. */
  schemes: string[];
  /** Whether it answers without any of them. */
  isPublic: boolean;
  /** The statuses of its answers in the reference. */
  statuses: string[];
  contentType: string | null;
  /** An example of its body. */
  body: Record<string, unknown> | null;
  /** The properties that its body must have. */
  required: string[];
  /** The values of each property that the reference names: all of them if they are few, otherwise an example. */
  choices: Record<string, unknown[]>;
  /** The same of the parameters in its query. */
  query: Record<string, unknown[]>;
}

/** @param id replaces every id in a path. */
export function attackedOperations(id = 1): Attacked[] {
  return Object.entries(DOCUMENT.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId, security, requestBody, parameters, responses }]) => {
      const [contentType = null] = Object.keys(requestBody?.content ?? {});
      const media = contentType === null ? undefined : requestBody?.content[contentType];
      const schema = media ? resolved(media.schema) : {};
      const inQuery = parameters.map((each) => resolve(DOCUMENT, each)).filter((each) => each.in === 'query');
      return {
        name: operationId,
        method: method.toUpperCase(),
        path: path.replace('{reader}', A_READER).replace(/\{\w+\}/g, String(id)),
        template: path,
        schemes: security.flatMap((each) => Object.keys(each)),
        isPublic: security.length === 0 || security.some((each) => Object.keys(each).length === 0),
        statuses: Object.keys(responses),
        contentType,
        required: (schema.required as string[] | undefined) ?? [],
        choices: withoutAssertion(
          mapValues((schema.properties ?? {}) as Record<string, JsonSchema>, choicesOf),
        ),
        query: Object.fromEntries(
          inQuery.map(({ name, example, schema }) => [name, choicesOf({ examples: [example], ...schema })]),
        ),
        body: media ? withoutAssertion(media.example as Record<string, unknown>) : null,
      };
    }),
  );
}

function choicesOf(schema: JsonSchema): unknown[] {
  const { enum: all, const: only, type, anyOf, examples, items } = schema;
  if (Array.isArray(all)) return all;
  // A list of words takes all of them at once.
  const words = (items as JsonSchema | undefined)?.enum;
  if (Array.isArray(words)) return [words];
  if (type === 'boolean') return [true, false];
  const nothing =
    Array.isArray(anyOf) && anyOf.some((each: JsonSchema) => each.type === 'null') ? [null] : [];
  return [only ?? (examples as unknown[] | undefined)?.[0], ...nothing];
}

function mapValues<From, To>(of: Record<string, From>, to: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(of).map(([name, value]) => [name, to(value)]));
}

/** An attack brings credentials of its own, and a request authenticates in one way only. */
function withoutAssertion<Value>({
  client_assertion: _,
  client_assertion_type: __,
  ...body
}: Record<string, Value>): Record<string, Value> {
  return body;
}

function resolved(schema: JsonSchema): JsonObject {
  return resolve<JsonSchema>(DOCUMENT, schema);
}

/** Operations that take a token of this scheme. @throws Error if there is none */
export function operationsWith(scheme: string): Attacked[] {
  const found = attackedOperations().filter(({ schemes }) => schemes.includes(scheme));
  if (found.length === 0) throw new Error(`no operation takes ${scheme}`);
  return found;
}

/** The body in its encoded form. */
export function bodyOf({ contentType, body }: Attacked, values: object = body ?? {}): string | undefined {
  if (body === null) return undefined;
  return contentType === 'application/json'
    ? JSON.stringify(values)
    : new URLSearchParams(values as Record<string, string>).toString();
}

export function headersOf({ contentType }: Attacked): Record<string, string> {
  return contentType === null ? {} : { 'content-type': contentType };
}

/** Runs tasks with limited concurrency. */
export async function inParallel<Item>(
  items: Item[],
  task: (item: Item) => Promise<void>,
  width = 8,
): Promise<void> {
  const queue = [...items];
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) await task(item);
    }),
  );
}
