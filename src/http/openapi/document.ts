import type { ErrorCode } from '../../domain/errors.ts';
import { exampleOf } from './example.ts';
import { isObject, type JsonObject } from './json.ts';
import type { Described } from './operation.ts';
import {
  byStatus,
  codesOf,
  COMMON_HEADERS,
  componentName,
  isRouted,
  problemResponse,
  ref,
} from './refusals.ts';
import { HEADERS, PARAMETERS, SECURITY_SCHEMES, SERVICE } from './description.ts';
import { OAuthProblemSchema } from '../oauth-error.ts';
import { LoginProblemSchema, ProblemSchema } from '../problem.ts';

/** A route's schema: its description, the parts that Fastify validates, and `oauthErrors` of its configuration. */
export type RouteSchema = Described & { oauthErrors?: boolean } & JsonObject;

/**
 * Completes the document generated from the routes' schemas: adds each route's refusals, the headers of every answer,
 * examples of whole bodies, and components for shared parts.
 * @param schemaOf the schema of a route, by its operationId
 */
export function completeDocument(
  generated: { paths?: unknown },
  schemaOf: (operationId: string) => RouteSchema | undefined,
): JsonObject {
  const responses: JsonObject = {};
  const schemas: JsonObject = {};
  const described = (generated.paths ?? {}) as Record<string, Record<string, JsonObject>>;
  // In the order of app.ts: within a tag, the page shows them so.
  const paths = Object.entries(described).map(
    ([path, operations]) => [path, completePath(path, operations, schemaOf, responses)] as const,
  );
  const hoisted = hoistTitled(
    { paths: Object.fromEntries(paths), problems: [ProblemSchema, LoginProblemSchema, OAuthProblemSchema] },
    schemas,
  );
  return withLinks({
    ...SERVICE,
    paths: hoisted.paths,
    components: {
      schemas: sorted(schemas),
      responses: sorted(responses),
      parameters: PARAMETERS,
      headers: HEADERS,
      securitySchemes: SECURITY_SCHEMES,
    },
  }) as JsonObject;
}

const RFC = /\bRFC (\d+)(?:, section (\d+(?:\.\d+)*))?/g;

/** The document with links in its descriptions, which are Markdown, to the standards that they name. */
function withLinks(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(withLinks);
  if (!isObject(part)) return part;
  return Object.fromEntries(
    Object.entries(part).map(([key, value]) => [
      key,
      key === 'description' && typeof value === 'string' ? linkStandards(value) : withLinks(value),
    ]),
  );
}

function linkStandards(text: string): string {
  return text.replace(RFC, (name, rfc: string, section: string | undefined) => {
    const anchor = section === undefined ? '' : `#section-${section}`;
    return `[${name}](https://www.rfc-editor.org/rfc/rfc${rfc}${anchor})`;
  });
}

/**
 * Moves every schema with a title to the components and leaves a reference, so that generated clients get one type for
 * a shared schema.
 * @throws Error if two different schemas have the same title
 */
export function hoistTitled(document: JsonObject, components: JsonObject): JsonObject {
  const hoist = (part: unknown): unknown => {
    if (Array.isArray(part)) return part.map(hoist);
    if (!isObject(part)) return part;
    const copy = Object.fromEntries(
      // Examples contain no schemas.
      Object.entries(part).map(([key, value]) => [
        key,
        key === 'example' || key === 'examples' ? value : hoist(value),
      ]),
    );
    const { title, type } = copy;
    if (typeof title !== 'string' || type === undefined) return copy;
    const former = components[title];
    if (former !== undefined && JSON.stringify(former) !== JSON.stringify(copy)) {
      throw new Error(`two schemas have the title ${title}`);
    }
    components[title] = copy;
    return { $ref: `#/components/schemas/${title}` };
  };
  return hoist(document) as JsonObject;
}

/**
 * A route that takes any method is one operation. It is shown as GET, and `x-any-method` marks it for programs.
 * `x-head` marks a route that answers HEAD like GET.
 */
function completePath(
  path: string,
  operations: Record<string, JsonObject>,
  schemaOf: (operationId: string) => RouteSchema | undefined,
  responses: JsonObject,
): JsonObject {
  const shown = Object.entries(operations).filter(
    ([method, { operationId }]) => method === 'get' || operations.get?.operationId !== operationId,
  );
  return Object.fromEntries(
    shown.map(([method, operation]) => {
      const { operationId } = operation;
      const schema = typeof operationId === 'string' ? schemaOf(operationId) : undefined;
      if (!schema) throw new Error(`${method} ${path} has no operationId`);
      const methods = Object.keys(operations).filter((each) => operations[each]?.operationId === operationId);
      const isHeadToo = methods.join() === 'get,head';
      const marked = {
        ...operation,
        ...(methods.length > 1 && { [isHeadToo ? 'x-head' : 'x-any-method']: true }),
      };
      return [method, completeOperation(method, marked, schema, responses)];
    }),
  );
}

function completeOperation(
  method: string,
  operation: JsonObject,
  schema: RouteSchema,
  shared: JsonObject,
): JsonObject {
  const { operationId, security, refuses, takesLimited, answers = {}, oauthErrors = false } = schema;
  const isValidated =
    schema.isValidated !== false && ['body', 'querystring', 'params'].some((part) => part in schema);
  const consumes = schema.consumes as string[] | undefined;
  const codes = codesOf({ method, consumes, isValidated, security, refuses, takesLimited });
  const parameters = ((operation.parameters ?? []) as JsonObject[]).map(withoutOptionalExample);
  return {
    ...operation,
    parameters: [...parameters, ref('parameters', 'RequestId')],
    ...(isObject(operation.requestBody) && { requestBody: withExample(operation.requestBody, operationId) }),
    responses: {
      ...successes(merged(operation.responses as JsonObject, answers), operationId),
      ...refusals(codes, oauthErrors, shared),
    },
  };
}

/** Described parts of an answer override generated ones. */
function merged(generated: JsonObject, answers: Readonly<Record<string, JsonObject>>): JsonObject {
  const both = Object.entries(answers).map(([status, answer]) => [
    status,
    { ...(generated[status] as JsonObject | undefined), ...answer },
  ]);
  return { ...generated, ...(Object.fromEntries(both) as JsonObject) };
}

function successes(responses: JsonObject, operationId: string): JsonObject {
  return Object.fromEntries(
    Object.entries(responses as Record<string, JsonObject>).map(([status, response]) => [
      status,
      {
        ...withExample(response, operationId),
        headers: { ...COMMON_HEADERS, ...(response.headers as JsonObject | undefined) },
      },
    ]),
  );
}

/** A response that is the same everywhere becomes a component. */
function refusals(codes: ErrorCode[], oauthErrors: boolean, shared: JsonObject): JsonObject {
  return Object.fromEntries(
    byStatus(codes).map(([status, together]) => {
      const speaksOAuth = oauthErrors && isRouted(together);
      const response = problemResponse(together, speaksOAuth);
      const common = componentName(together);
      if (common === null) return [status, response];
      const name = `${speaksOAuth ? 'OAuth' : ''}${common}`;
      shared[name] = response;
      return [status, ref('responses', name)];
    }),
  );
}

/** The /docs page would send an example as a value, and so end a token that the user did not name. */
function withoutOptionalExample(parameter: JsonObject): JsonObject {
  const { example, ...rest } = parameter;
  return parameter.required === true ? { ...rest, example } : rest;
}

/** Adds an example to each media type that has none. */
function withExample(part: JsonObject, operationId: string): JsonObject {
  const { content } = part;
  if (!isObject(content)) return part;
  const media = Object.entries(content as Record<string, JsonObject>).map(([type, value]) => [
    type,
    'example' in value || 'examples' in value
      ? value
      : { ...value, example: exampleOf(value.schema as JsonObject, operationId) },
  ]);
  return { ...part, content: Object.fromEntries(media) as JsonObject };
}

function sorted(map: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1)));
}
