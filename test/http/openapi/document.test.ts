import { readFileSync } from 'node:fs';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { test } from 'tap';
import { completeDocument } from '../../../src/http/openapi/document.ts';
import { operation } from '../../../src/http/openapi/operation.ts';
import { PROBLEMS } from '../../../src/http/problem.ts';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { call } from '../../support/client.ts';
import {
  resolve,
  type Document,
  type JsonSchema,
  type Operation,
  type Parameter,
  type Response,
} from '../../support/openapi.ts';
import { routesOf } from '../../support/routes.ts';

const FILE = new URL('../../../../docs/openapi.json', import.meta.url);

/** Codes of the HTTP layers below the router, and of a broken service: no operation documents them. */
const OF_NO_OPERATION = ['method_not_allowed', 'origin_not_listed'];

test('docs/openapi.json equals the served document (npm run openapi writes it)', async (t) => {
  const { app } = await buildTestApp(t);
  const { body } = await app.inject('/docs/json');
  t.equal(`${JSON.stringify(JSON.parse(body), null, 2)}\n`, readFileSync(FILE, 'utf8'));
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  t.match(JSON.parse(body), { openapi: '3.1.0', info: { version } });
});

test('the linter’s strict rules find nothing but two paths, whose ids are decimal', async (t) => {
  const found = await lint(readFileSync(FILE, 'utf8'));
  t.equal(found.length, 1);
  t.match(found[0], 'two ambiguous paths: `/api/users/{id}/email` and `/api/users/mails/{id}`');
});

test('every route is in the document, or hidden on purpose', async (t) => {
  let target: TestApp | undefined;
  const routes = await routesOf(async () => {
    target = await buildTestApp(t);
  });
  if (!target) return;
  const listed = new Set(
    operationsIn(read()).flatMap(([method, path, { 'x-any-method': any, 'x-head': head }]) => [
      `${any ? 'any' : method.toUpperCase()} ${path}`,
      ...(head ? [`HEAD ${path}`] : []),
    ]),
  );
  const missing: string[] = [];
  for (const { method, url } of routes) {
    const path = url.replace(/:(\w+)/g, '{$1}');
    if (
      path.startsWith('/docs') ||
      path.endsWith('/verify/*') ||
      listed.has(`${method} ${path}`) ||
      listed.has(`any ${path}`)
    )
      continue;
    const { statusCode } = await call(target, `${method} ${url.replace(':id', '1')}`);
    if (statusCode !== 405) missing.push(`${method} ${url}`);
  }
  t.ok(listed.size >= 18);
  t.strictSame(missing, []);
});

test('the page begins with what every client needs', (t) => {
  const document = read();
  const shown = document.tags.flatMap(({ name }) =>
    operationsIn(document).filter(([, , { tags }]) => tags.includes(name)),
  );
  const first = shown.slice(0, 8).map(([, , { operationId }]) => operationId);
  const needed = [
    'signUp',
    'logIn',
    'completeLogin',
    'refresh',
    'getPasskeyOptions',
    'createLongLivedToken',
    'deleteLongLivedToken',
    'logOut',
  ];
  t.strictSame(first, needed);
  t.end();
});

test('the introduction links to existing operations', (t) => {
  const document = read();
  const linked = [...document.info.description.matchAll(/\]\(#\/([^)]*)\)/g)].map(([, path = '']) =>
    decodeURI(path),
  );
  const known = operationsIn(document).map(([, , { tags, operationId }]) => `${tags[0]}/${operationId}`);
  t.ok(linked.length > 0);
  for (const link of linked) t.ok(known.includes(link), link);
  t.end();
});

test('every operation, parameter, body and answer has a description and examples', (t) => {
  const document = read();
  for (const [method, path, each] of operationsIn(document)) {
    t.strictSame(gapsIn(document, each), [], `${method} ${path}`);
  }
  t.end();
});

test('the document marks an operation as public if and only if its route is', async (t) => {
  const target = await buildTestApp(t);
  for (const [method, path, { security }] of operationsIn(read())) {
    const { statusCode } = await call(target, `${method.toUpperCase()} ${path.replace(/\{\w+\}/g, '1')}`);
    t.equal(statusCode === 401, security.length > 0, `${method} ${path} is ${statusCode}`);
  }
});

test('every code of an error is documented by some operation', (t) => {
  const document = read();
  const documented = new Set(
    operationsIn(document).flatMap(([, , { responses }]) =>
      Object.values(responses).flatMap((response) =>
        Object.keys(
          resolve<Response>(document, response).content?.['application/problem+json']?.examples ?? {},
        ),
      ),
    ),
  );
  t.strictSame([...documented, ...OF_NO_OPERATION].sort(), Object.keys(PROBLEMS).sort());
  t.end();
});

/** The readers of an address. An answer holds only what its schema lists. */
const WITH_ADDRESS = ['getEmail', 'getUserEmail', 'takeMails'];

test('three operations answer with an address; nothing else that is secret is in an answer', (t) => {
  const document = read();
  const answering = (name: string) =>
    operationsIn(document)
      .filter(([, , { responses }]) =>
        Object.entries(responses).some(
          ([status, response]) =>
            status === '200' &&
            propertiesIn(document, resolve<Response>(document, response).content).has(name),
        ),
      )
      .map(([, , { operationId }]) => operationId);
  t.strictSame(answering('email').sort(), [...WITH_ADDRESS].sort());
  for (const name of ['password', 'device']) t.strictSame(answering(name), [], name);
  t.ok(answering('username').length > 3, 'properties are found');
  for (const [title, schema] of Object.entries(document.components.schemas)) {
    const properties = (schema.properties ?? {}) as Record<string, JsonSchema>;
    for (const name of ['email', 'password', 'device'])
      if (name in properties && properties[name]?.readOnly !== true)
        t.equal(properties[name]?.writeOnly, true, `${title} ${name}`);
  }
  t.end();
});

/** The names of all properties in a part of the document, with those that it refers to. */
function propertiesIn(document: Document, part: unknown, names = new Set<string>()): Set<string> {
  if (typeof part !== 'object' || part === null) return names;
  const { properties, $ref } = part as { properties?: object; $ref?: string };
  for (const name of Object.keys(properties ?? {})) names.add(name);
  const parts = $ref === undefined ? Object.values(part) : [resolve<unknown>(document, part)];
  for (const each of parts) propertiesIn(document, each, names);
  return names;
}

test('a route without operationId, or a property without an example, is refused', (t) => {
  const { paths } = read();
  t.throws(() => completeDocument({ paths }, () => undefined), /has no operationId/);
  const schema = operation({
    operationId: 'getEmail',
    summary: 'Other',
    description: 'Another.',
    tags: ['Accounts'],
    security: [],
    refuses: [],
  });
  const content = { 'application/json': { schema: { properties: { name: { type: 'string' } } } } };
  const post = { operationId: 'other', requestBody: { content }, responses: {} };
  t.throws(
    () => completeDocument({ paths: { '/other': { post } } }, () => ({ ...schema })),
    /getEmail\/name has no example/,
  );
  t.end();
});

test('DOCS_ENABLED=false removes the document and the page', async (t) => {
  const target = await buildTestApp(t, { env: { DOCS_ENABLED: 'false' } });
  for (const path of ['/docs', '/docs/', '/docs/json', '/docs/static/swagger-ui.css']) {
    t.equal((await call(target, `GET ${path}`)).statusCode, 404, path);
  }
});

function read(): Document {
  return JSON.parse(readFileSync(FILE, 'utf8')) as Document;
}

function operationsIn({ paths }: Document): [method: string, path: string, operation: Operation][] {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, each]) => [method, path, each] as [string, string, Operation]),
  );
}

async function lint(source: string): Promise<string[]> {
  const config = await createConfig({ extends: ['recommended-strict'] });
  const problems = await lintFromString({ source, absoluteRef: '/openapi.json', config });
  return problems.map(
    ({ ruleId, message, location }) => `${ruleId}: ${message} (${location[0]?.pointer ?? ''})`,
  );
}

/** Missing descriptions and examples. */
function gapsIn(document: Document, each: Operation): string[] {
  const tags = document.tags.map(({ name }) => name);
  const parameters = each.parameters.map((parameter) => resolve<Parameter>(document, parameter));
  return [
    ...gap(Boolean(each.summary) && each.summary !== each.description, 'summary'),
    ...gap(Boolean(each.description), 'description'),
    ...gap(each.tags.length > 0 && each.tags.every((tag) => tags.includes(tag)), 'tags'),
    ...parameters.flatMap(({ name, description, required, example }) => [
      ...gap(Boolean(description), `description of ${name}`),
      ...gap(!required || example !== undefined, `example of ${name}`),
    ]),
    ...Object.values(each.requestBody?.content ?? {}).flatMap(({ schema, example, examples }) => [
      ...gap(example !== undefined || examples !== undefined, 'example of the request'),
      ...gapsInSchema(document, schema),
    ]),
    ...Object.entries(each.responses).flatMap(([status, response]) =>
      gapsInResponse(document, status, resolve<Response>(document, response)),
    ),
  ];
}

function gapsInResponse(document: Document, status: string, response: Response): string[] {
  const { description, headers = {}, content } = response;
  // An answer without a body must document headers.
  const isEmpty = Object.keys(headers).length > 2 || description.endsWith('There is no body.');
  return [
    ...gap(Boolean(description) && description !== 'Default Response', `description of ${status}`),
    ...gap('X-Request-Id' in headers && 'Cache-Control' in headers, `headers of ${status}`),
    ...gap(isEmpty || content !== undefined, `schema of ${status}`),
    ...Object.entries(content ?? {}).flatMap(([type, { schema, example, examples }]) => [
      ...gap(example !== undefined || examples !== undefined, `example of ${status}`),
      ...gap(status === '200' || isProblem(type, schema), `type of ${status}`),
      ...gapsInSchema(document, schema),
    ]),
  ];
}

/** OAuth clients get a problem as application/json. */
function isProblem(type: string, schema: JsonSchema): boolean {
  const isForOAuth = JSON.stringify(schema).includes('#/components/schemas/OAuthProblem');
  return type === 'application/problem+json' || (type === 'application/json' && isForOAuth);
}

/** Properties without a description. */
function gapsInSchema(document: Document, part: JsonSchema, path = ''): string[] {
  const schema = resolve<JsonSchema>(document, part);
  const properties = Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>);
  const items = schema.items as JsonSchema | undefined;
  return [
    ...properties.flatMap(([name, property]) => [
      ...gap(
        Boolean(resolve<JsonSchema>(document, property).description) ||
          'const' in property ||
          'enum' in property,
        `description of ${path}/${name}`,
      ),
      ...gapsInSchema(document, property, `${path}/${name}`),
    ]),
    ...((schema.allOf ?? schema.oneOf ?? []) as JsonSchema[]).flatMap((each) =>
      gapsInSchema(document, each, path),
    ),
    ...(items ? gapsInSchema(document, items, path) : []),
  ];
}

function gap(isThere: boolean, name: string): string[] {
  return isThere ? [] : [name];
}
