import { isObject, type JsonObject } from './json.ts';

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
    const known = components[title];
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(copy)) {
      throw new Error(`two schemas have the title ${title}`);
    }
    components[title] = copy;
    return { $ref: `#/components/schemas/${title}` };
  };
  return hoist(document) as JsonObject;
}
