import type { FastifySchema } from 'fastify';
import type { ErrorCode } from '../../domain/errors.ts';
import type { JsonObject } from './json.ts';
import type { SecurityScheme, Tag } from './service.ts';

/** What the reference says of a route, besides the schemas by which Fastify checks and answers. */
export interface Described {
  operationId: string;
  summary: string;
  /** CommonMark. */
  description: string;
  tags: readonly Tag[];
  /** Who may call it; an empty list for everybody. It only describes: what lets in is the route's hook. */
  security: readonly Partial<Record<SecurityScheme, readonly string[]>>[];
  /** The ways of refusing that are its own; those that every such route has are added (see refusals.ts). */
  refuses: readonly ErrorCode[];
  /** Answers that no schema of Fastify's can describe, as OpenAPI's response objects by status. */
  answers?: Readonly<Record<number, JsonObject>>;
  /** Whatever follows in the path is the same operation; OpenAPI has no words for it. */
  'x-any-path-below'?: true;
}

declare module 'fastify' {
  interface FastifySchema {
    operationId?: string;
    summary?: string;
    description?: string;
    tags?: readonly string[];
    security?: readonly Readonly<Record<string, readonly string[]>>[];
    refuses?: readonly ErrorCode[];
    consumes?: readonly string[];
    answers?: Readonly<Record<number, JsonObject>>;
    /** Left out of the reference. */
    hide?: boolean;
  }
}

/**
 * The schema of a route that is in the reference: nothing of its description may be missing. Each property of its bodies
 * and each parameter has to carry `examples`, of which the examples of whole bodies are made.
 */
export function operation<const Schema extends Described & FastifySchema>(schema: Schema): Schema {
  return schema;
}
