import { isObject, type JsonObject } from './json.ts';

/**
 * Builds the example of a whole body from the first example of each property.
 * @throws Error that names the first property without an example
 */
export function exampleOf(schema: JsonObject, path = ''): unknown {
  const { examples, properties, items, anyOf, oneOf = anyOf } = schema;
  if (Array.isArray(examples) && examples.length > 0) return examples[0];
  if ('const' in schema) return schema.const;
  if (isObject(properties)) {
    return Object.fromEntries(
      Object.entries(properties).map(([name, property]) => [
        name,
        exampleOf(property as JsonObject, `${path}/${name}`),
      ]),
    );
  }
  if (isObject(items)) return [exampleOf(items, path)];
  if (Array.isArray(oneOf)) return exampleOf(oneOf[0] as JsonObject, path);
  throw new Error(`${path} has no example`);
}
