import { isObject, type JsonObject } from './json.ts';

/**
 * An example of a whole body, made of the first example of each of its properties.
 * @throws Error naming the first property that has none
 */
export function exampleOf(schema: JsonObject, path = ''): unknown {
  const { examples, properties, items, anyOf } = schema;
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
  if (Array.isArray(anyOf)) return exampleOf(anyOf[0] as JsonObject, path);
  throw new Error(`${path} has no example`);
}
