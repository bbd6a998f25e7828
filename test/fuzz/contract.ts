import formats from 'ajv-formats';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import {
  resolve,
  type Document,
  type Header,
  type JsonSchema,
  type Media,
  type Operation,
  type Reference,
  type Response,
} from '../support/openapi.ts';
import { eventsIn, type Answer } from './wire.ts';

export interface Known {
  method: string;
  /** The path in the document, with `{id}`. */
  path: string;
  operation: Operation;
}

/** The statuses that the HTTP layers may send for a request that matches no operation. */
const WITHOUT_OPERATION = [400, 404, 405, 408, 413, 417, 431];

/** Checks answers against the document. */
export function makeContract(document: Document) {
  const ajv = new Ajv2020({ strict: false, validateFormats: true });
  (formats as unknown as (ajv: Ajv2020) => void)(ajv);
  ajv.addSchema(document, 'document');
  const compiled = new Map<object, ValidateFunction>();
  const operations: Known[] = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );

  function validate(schema: object, value: unknown): string[] {
    const known = compiled.get(schema) ?? ajv.compile(absolute(schema));
    compiled.set(schema, known);
    return known(value) ? [] : [ajv.errorsText(known.errors)];
  }

  /** The operation that matches this request; otherwise the reason why none does. */
  function find(method: string, target: string): Known | 'no path' | 'no method' {
    const path = pathOf(target);
    const found = path === null ? [] : operations.filter((each) => fits(each, path));
    // A path without parameters comes before one with parameters.
    const literal = found.filter((each) => !each.path.includes('{'));
    const candidates = literal.length > 0 ? literal : found;
    const [first] = candidates;
    if (!first) return 'no path';
    return (
      candidates.find(({ method: known, operation }) => {
        const isHeadToo = method === 'HEAD' && operation['x-head'] === true;
        return known === method || isHeadToo || operation['x-any-method'] === true;
      }) ?? 'no method'
    );
  }

  /** @returns the problems of the answer. */
  function check(method: string, target: string, answer: Answer): string[] {
    if (answer.status >= 500) return [`${answer.status} is never right`];
    const known = find(method, target);
    if (typeof known === 'string') return checkProblem(method, answer);
    const response = responseTo(known.operation, answer.status);
    if (!response) return [`${answer.status} is not documented`];
    const { headers = {}, content } = response;
    const isOfRange = !(answer.status in known.operation.responses);
    return [
      ...checkHeaders(headers, answer),
      ...(method === 'HEAD' ? [] : checkBody(content, answer)),
      ...(method !== 'HEAD' && isOfRange ? checkExample(content, answer) : []),
    ];
  }

  /** The range `4XX` holds only for the statuses of its examples. */
  function responseTo({ responses }: Operation, status: number): Response | undefined {
    const own = responses[status];
    if (own) return resolve<Response>(document, own);
    const range = resolve<Response>(document, responses['4XX'] ?? { description: '' });
    return examplesOf(range.content).some((example) => example.status === status) ? range : undefined;
  }

  /** A range's schema does not tie code, status and members. Its examples do. */
  function checkExample(content: Response['content'], { status, body }: Answer): string[] {
    const problem = JSON.parse(body.toString()) as Example;
    const example = examplesOf(content).find((one) => one.code === problem.code && one.status === status);
    if (!example) return [`no example has ${status} and ${String(problem.code)}`];
    const missing = Object.keys(example).filter((member) => !(member in problem));
    return missing.map((member) => `${member} is missing`);
  }

  /** Checks the answer to a request that reached no operation. */
  function checkProblem(method: string, answer: Answer): string[] {
    if (!WITHOUT_OPERATION.includes(answer.status))
      return [`${answer.status} to a request without a documented operation`];
    const schema = { $ref: '#/components/schemas/Problem' };
    return method === 'HEAD' ? [] : checkBody({ 'application/problem+json': { schema } }, answer);
  }

  function checkHeaders(headers: Record<string, Header | Reference>, answer: Answer): string[] {
    return Object.entries(headers).flatMap(([name, part]) => {
      const { required, schema } = resolve<Header>(document, part);
      const value = answer.headers.get(name.toLowerCase());
      if (value === undefined) return required ? [`${name} is missing`] : [];
      const options = [schema, ...((schema.anyOf ?? []) as JsonSchema[])];
      const isNumber = options.some(({ type }) => type === 'integer') && /^\d+$/.test(value);
      return validate(schema, isNumber ? Number(value) : value).map((problem) => `${name}: ${problem}`);
    });
  }

  function checkBody(content: Response['content'], { headers, body }: Answer): string[] {
    const type = headers.get('content-type')?.split(';')[0];
    if (!content) return body.length === 0 ? [] : ['there is a body'];
    const media = type === undefined ? undefined : content[type];
    if (!media) return [`${type ?? 'no type'} is not documented`];
    if (type === 'text/event-stream') return checkEvents(media, body.toString());
    let value: unknown;
    try {
      value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
    } catch {
      return ['the body is not JSON in UTF-8'];
    }
    return validate(media.schema, value);
  }

  /** Checks the part of a stream that was read. */
  function checkEvents({ 'x-events': schemas = {} }: Media, text: string): string[] {
    const events = eventsIn(text);
    if (events.length === 0) return ['the stream holds no event'];
    return events.flatMap(({ event, data }) => {
      const schema = schemas[event];
      return schema ? validate(schema, JSON.parse(data)) : [`${event} is no documented event`];
    });
  }

  /** The properties that an operation's body must have, and those that may be null. */
  function properties({ requestBody }: Operation): { required: string[]; nullable: string[] } {
    const [media] = Object.values(requestBody?.content ?? {});
    const schema = media && resolve<JsonSchema>(document, media.schema);
    const isNullable = (property: JsonSchema) => validate(property, null).length === 0;
    const described = Object.entries((schema?.properties ?? {}) as Record<string, JsonSchema>);
    return {
      required: (schema?.required ?? []) as string[],
      nullable: described.filter(([, property]) => isNullable(property)).map(([name]) => name),
    };
  }

  return { operations, check, properties };
}

type Example = Record<string, unknown>;

function examplesOf(content: Response['content']): Example[] {
  return Object.values(content?.['application/problem+json']?.examples ?? {}).map(
    ({ value }) => value as Example,
  );
}

export type Contract = ReturnType<typeof makeContract>;

/** Rewrites the document's references for use outside of it. */
function absolute(part: unknown): object {
  const text = JSON.stringify(part).replaceAll('"$ref":"#/', '"$ref":"document#/');
  return JSON.parse(text) as object;
}

/** A target's path, decoded like the router does; null if it cannot be decoded. */
function pathOf(target: string): string | null {
  const path = target.replace(/^https?:\/\/[^/]*/i, '').split(/[?#]/)[0] ?? '';
  try {
    return decodeURI(path);
  } catch {
    return null;
  }
}

function fits({ path: template, operation }: Known, path: string): boolean {
  const [wanted, given] = [template.split('/'), path.split('/')];
  const isBelow = operation['x-any-path-below'] === true && given.length > wanted.length;
  if (wanted.length !== given.length && !isBelow) return false;
  // A path that ends in an empty id reaches the operation, which refuses it like any invalid id.
  const last = wanted.length - 1;
  return wanted.every((part, i) =>
    part.startsWith('{') ? i === last || given[i] !== '' : part === given[i],
  );
}
