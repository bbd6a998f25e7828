// What `npm run openapi` writes into @latchkey/client, from docs/openapi.json: the types of the operations
// that browsers may call, and what its testing server knows of them. Run by itself, as `npm run check` does,
// it only compares.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { format } from 'oxfmt';

const root = new URL('..', import.meta.url).pathname;
const HEAD = '// `npm run openapi` writes this file.';
const JSON_BODY = 'application/json';

/**
 * @param document docs/openapi.json
 * @param browserPaths as Fastify writes them
 * @returns the text of each file, by its path
 */
export async function clientOperations(document, browserPaths) {
  const operations = readOperations(document, browserPaths);
  const { singleQuote, printWidth } = JSON.parse(readFileSync(join(root, '.oxfmtrc.json'), 'utf8'));
  const texts = {
    'packages/client/src/operations.ts': typesOf(document, operations),
    'packages/client/src/testing/api.ts': apiOf(document, operations),
  };
  for (const [name, text] of Object.entries(texts)) {
    const { code, errors } = await format(name, text, { singleQuote, printWidth });
    if (errors.length > 0) throw new Error(`${name} cannot be formatted: ${errors[0].message}`);
    texts[name] = code;
  }
  return texts;
}

/** Those that `client.request` can send: without a body, or with JSON. */
function readOperations(document, browserPaths) {
  const paths = Object.entries(document.paths).filter(([path]) =>
    browserPaths.has(path.replace(/\{(\w+)\}/g, ':$1')),
  );
  return paths.flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { requestBody }]) => !requestBody || requestBody.content[JSON_BODY])
      .map(([method, operation]) => readOperation(document, path, method, operation)),
  );
}

function readOperation(document, path, method, operation) {
  const { operationId: id, summary, security, requestBody, responses } = operation;
  const parameters = operation.parameters.map((part) => resolved(document, part));
  return {
    id,
    path,
    method: method.toUpperCase(),
    summary,
    token: Object.keys(security[0] ?? {})[0] ?? null,
    pathTypes: Object.fromEntries(
      parameters
        .filter(({ in: place }) => place === 'path')
        .map(({ name, schema }) => [name, typeOf(schema)]),
    ),
    // What is in the path too is there already.
    query: parameters.filter(
      ({ in: place, name }) =>
        place === 'query' && !parameters.some((other) => other.in === 'path' && other.name === name),
    ),
    body: requestBody?.content[JSON_BODY].schema,
    answer: responses[200].content[JSON_BODY].schema,
    problems: Object.values(responses)
      .flatMap((response) => Object.values(resolved(document, response).content))
      .flatMap(({ examples = {} }) => Object.values(examples))
      .map(({ value }) => value)
      .filter(({ type }) => /^urn:latchkey:error:/.test(type)),
  };
}

function resolved(document, part) {
  if (!part.$ref) return part;
  return part.$ref
    .slice(2)
    .split('/')
    .reduce((found, name) => found[name], document);
}

/** Types alone: a page that imports them loads not a byte. */
function typesOf(document, operations) {
  const keys = new Map();
  for (const operation of operations)
    for (const key of keysOf(operation)) keys.set(key, [...(keys.get(key) ?? []), operation]);
  const entryOf = ({ method, summary, body, answer }) => `
    /** ${summary} */
    ${method}: { ${body ? `body: ${typeOf(body)}; ` : ''}answer: ${typeOf(answer)} };`;
  const paths = [...keys].map(([key, all]) => `${key}: {${all.map(entryOf).join('')}\n};`);
  const bodies = operations.map(({ body }) => body).filter(Boolean);
  const answered = schemasIn(
    document,
    operations.map(({ answer }) => answer),
  );
  const schemas = [...schemasIn(document, bodies), ...answered].sort().map((name) => {
    // A sender may hold a list as readonly; a reader may do with one what it likes.
    const members = typeOf(document.components.schemas[name], !answered.has(name));
    return `export interface ${name} ${members}`;
  });
  return `${HEAD}

/**
 * The operations that \`client.request\` can send, by path and method. An id stands for itself in the path, and a
 * parameter in the query.
 */
export interface Operations {
${paths.join('\n')}
}

${[...new Set(schemas)].join('\n\n')}
`;
}

/** The path alone, and with each parameter of the query. */
function keysOf({ path, pathTypes, query }) {
  const bare = path.replace(/\{(\w+)\}/g, (_, name) => `\${${pathTypes[name]}}`);
  const withQuery = query.map(({ name, schema }) => {
    const type = typeOf(schema);
    return `${bare}?${name}=${type.startsWith("'") ? type.slice(1, -1) : `\${${type}}`}`;
  });
  return [bare, ...withQuery].map((key) => (key.includes('${') ? `[path: \`${key}\`]` : `'${key}'`));
}

function literals(codes) {
  return [...new Set(codes)].map((code) => `'${code}'`);
}

/** The names of the schemas that these ones name, with those that they name in turn. */
function schemasIn(document, schemas, found = new Set()) {
  for (const [, name] of JSON.stringify(schemas).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
    if (found.has(name)) continue;
    found.add(name);
    schemasIn(document, [document.components.schemas[name]], found);
  }
  return found;
}

/** @param isSent whether it is a part of a request */
function typeOf(schema, isSent = false) {
  if (schema.$ref) return nameOf(schema);
  if (schema.const !== undefined) return JSON.stringify(schema.const).replaceAll('"', "'");
  if (schema.enum) return literals(schema.enum).join(' | ');
  if (schema.anyOf) return schema.anyOf.map((each) => typeOf(each, isSent)).join(' | ');
  if (schema.type === 'array')
    return `${isSent ? 'readonly ' : ''}${wrapped(typeOf(schema.items, isSent))}[]`;
  if (schema.type === 'object') {
    const members = Object.entries(schema.properties).map(([name, each]) => {
      const isRequired = schema.required?.includes(name);
      // JSON leaves out what is undefined.
      const type = typeOf(each, isSent) + (isSent && !isRequired ? ' | undefined' : '');
      return `${name}${isRequired ? '' : '?'}: ${type};`;
    });
    return `{\n${members.join('\n')}\n}`;
  }
  const type = { integer: 'number', number: 'number', string: 'string', boolean: 'boolean', null: 'null' }[
    schema.type
  ];
  if (!type) throw new Error(`no type for ${JSON.stringify(schema)}`);
  return type;
}

function nameOf({ $ref }) {
  return $ref.split('/').at(-1);
}

function wrapped(type) {
  return type.includes('|') ? `(${type})` : type;
}

const SPREAD = '...COMMON';

/** Who may send what where, and what may be wrong with it. */
function apiOf(document, operations) {
  const [first, ...others] = operations.map(({ problems }) => problems.map(({ code }) => code));
  const common = first.filter((code) => others.every((codes) => codes.includes(code)));
  const routes = operations.map(({ id, method, path, token, query, body, problems }) => [
    id,
    {
      method,
      path,
      token,
      query: query.map(({ name }) => name),
      fields: body && fieldsOf(nameOf(body)),
      codes: [SPREAD, ...problems.map(({ code }) => code).filter((code) => !common.includes(code))],
    },
  ]);
  const problems = operations
    .flatMap((operation) => operation.problems)
    .map(({ code, status, title, detail }) => [code, [status, title, detail]]);
  return `${HEAD}

/** The errors that any operation may answer. */
const COMMON = ${JSON.stringify(common)} as const;

/** The operations: the kind of token that each takes, its query, the fields of its body, and the codes of its errors. */
export const ROUTES = ${JSON.stringify(Object.fromEntries(routes)).replaceAll(`"${SPREAD}"`, SPREAD)} as const;

/** Status, title and detail of each error. */
export const PROBLEMS = ${JSON.stringify(Object.fromEntries(problems))} as const;
`;

  function fieldsOf(name) {
    const { properties, required = [] } = document.components.schemas[name];
    return Object.fromEntries(
      Object.entries(properties).map(([field, schema]) => {
        const kinds = (schema.anyOf ?? [schema]).map((kind) => resolved(document, kind));
        const [{ minLength, maxLength, minItems, maxItems, minimum, pattern, items }] = kinds;
        const bounds = {
          min: minLength ?? minItems ?? minimum,
          max: maxLength ?? maxItems,
          pattern: pattern ?? items?.pattern,
        };
        return [
          field,
          { types: kinds.map(({ type }) => type), isRequired: required.includes(field), ...bounds },
        ];
      }),
    );
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { BROWSER_PATHS } = await import('../dist/src/http/plugins/cors.js');
  const document = JSON.parse(readFileSync(join(root, 'docs/openapi.json'), 'utf8'));
  for (const [name, text] of Object.entries(await clientOperations(document, BROWSER_PATHS))) {
    if (readFileSync(join(root, name), 'utf8') === text) continue;
    process.stderr.write(`${name} is not as docs/openapi.json has it: run npm run openapi\n`);
    process.exitCode = 1;
  }
}
